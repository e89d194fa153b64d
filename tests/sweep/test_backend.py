import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from small import BRIEF, parsed

from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.sweep import (
    Ended,
    Processes,
    Progress,
    Resources,
    WorkerSpec,
    drive,
    find_backend,
    run_worker,
)
from prunecast.sweep.backend import Backend, needs, with_resources
from prunecast.sweep.driver import FLEET
from prunecast.sweep.run import unfinished


class Recorded(Backend):
    """Records which workers are started, and runs them one after the other in this process."""

    def __init__(self, slots=2):
        self.slots, self.specs, self.over = slots, [], []

    def room(self, spec):
        return self.slots - len(self.over)

    def start(self, spec, count):
        names = [f"{len(self.specs)}-{number}" for number in range(count)]
        self.specs.append((spec, count))
        run_worker(dataclasses.replace(spec, device="cpu", packed=False))
        self.over += names
        return names

    def ended(self, seconds):
        over, self.over = self.over, []
        return [Ended(worker=name) for name in over]

    def stop(self):
        pass


def driven(jobs, store, **options):
    backend = Recorded(**options)
    events = list(drive(jobs, store, backend=lambda: backend))
    assert all(isinstance(event, Progress) for event in events)
    return backend, events


def short(text=BRIEF):
    return parsed(text.replace("level_cap = 2", "level_cap = 0"))


def jobs_of(plan):
    return unfinished(enumerate(plan.chains, 1), Path("nowhere"))


def test_workers_get_all_chains_the_longest_first(tmp_path):
    backend, events = driven(jobs_of(short()), tmp_path)
    ((spec, count),) = backend.specs
    assert ([job.number for job in spec.jobs], count) == ([3, 4, 1, 2], 2)
    assert sorted(event.number for event in events) == [1, 2, 3, 4]
    assert (spec.device, spec.packed) == ("cpu", False)


@pytest.mark.parametrize(("gpus", "slots"), [(0.25, 3), (1, 100), (2, 1)])
def test_a_fleet_keeps_no_more_open_than_is_fair(tmp_path, gpus, slots):
    plan = with_resources(short(BRIEF.replace("width = 0.5", "width = [0.5, 40]")), {"gpus": gpus})
    jobs = jobs_of(plan)[:2] + jobs_of(plan)[-1:]
    (spec, count), *_ = driven(jobs, tmp_path, slots=slots)[0].specs
    assert (spec.device, spec.packed, count) == ("cuda", True, min(slots, 3))
    assert spec.most_width == pytest.approx(min(FLEET * gpus, 41 / count))


def test_chains_that_need_something_else_have_other_workers(tmp_path):
    text = BRIEF.replace("level_cap = 2", "level_cap = 0").replace("width = 0.5", "width = [0.5, 1]")
    chains = parsed(text).chains
    several = [dataclasses.replace(chain, devices=2) for chain in chains[:2]]
    other = [dataclasses.replace(chain, resources=Resources(gpus=1, cpus=4)) for chain in chains[2:4]]
    jobs = unfinished(enumerate([*other, *chains[4:]], 1), tmp_path)
    asked = {spec.resources: len(spec.jobs) for spec, _ in driven(jobs, tmp_path)[0].specs}
    assert asked == {Resources(gpus=1, cpus=4): 2, Resources(): 4}
    assert needs(several[0], Resources(gpus=1, cpus=4)) == Resources(gpus=2, cpus=8)
    assert needs(several[0], Resources()) == Resources(cpus=2)
    (threaded, *_) = parsed(BRIEF.replace("depth", "threads = 3\ndepth", 1)).chains
    assert needs(threaded, Resources()) == Resources(cpus=3)
    assert needs(threaded, Resources(gpus=1)) == Resources(gpus=1)


def test_no_more_workers_than_the_plan_allows_over_all_kinds(tmp_path):
    chains = short().chains
    some = [dataclasses.replace(chain, resources=Resources(cpus=2, at_once=3)) for chain in chains[:2]]
    others = [dataclasses.replace(chain, resources=Resources(at_once=1)) for chain in chains[2:]]
    backend, _ = driven(unfinished(enumerate([*some, *others], 1), tmp_path), tmp_path)
    assert {count for _, count in backend.specs} == {1}


class Told:
    """A process that records how long it is waited for."""

    def __init__(self):
        self.waited = []

    def join(self, seconds=None):
        self.waited.append(seconds)

    terminate = kill = close = lambda self: None


@pytest.mark.parametrize(("device", "grace"), [("cpu", 30), ("cuda:0", 120)])
def test_a_worker_on_a_gpu_has_time_for_a_compile_before_it_is_killed(monkeypatch, device, grace):
    backend, process = Processes([device]), Told()
    monkeypatch.setattr(process, "pid", 1, raising=False)
    monkeypatch.setattr(process, "start", lambda: None, raising=False)
    monkeypatch.setattr(
        backend, "_context", SimpleNamespace(Pipe=lambda: (Told(), Told()), Process=process_of(process))
    )
    need = backend.needs(short().chains[0], Resources())
    spec = WorkerSpec(jobs=(), store=Path(), resources=need)
    assert backend.start(spec, 1) == [1]
    backend.stop()
    assert process.waited[0] == pytest.approx(grace, abs=1)


def process_of(process):
    return lambda **_: process


def test_backends_are_found_by_name():
    assert find_backend("test_backend:Recorded") is Recorded
    assert find_backend("ray").__name__ == "RayBackend"
    with pytest.raises(
        PrunecastError, match="no backend 'moon'; give one of processes, ray, slurm, or your own"
    ):
        find_backend("moon")
    with pytest.raises(PrunecastError, match="backend 'small:BRIEF' is str; give a class or a function that"):
        find_backend("small:BRIEF")


def test_a_plan_declares_resources_and_the_command_line_goes_before_it():
    plan = parsed(BRIEF + "[resources]\ngpus = 0.5\nminutes = 90\nat_once = 8\n")
    assert {chain.resources for chain in plan.chains} == {Resources(gpus=0.5, minutes=90, at_once=8)}
    given = with_resources(plan, {"gpus": 1, "memory_gb": 4})
    assert {chain.resources for chain in given.chains} == {
        Resources(gpus=1, minutes=90, memory_gb=4, at_once=8)
    }
    assert {chain.spec.digest for chain in given.chains} == {
        chain.spec.digest for chain in parsed(BRIEF).chains
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpu = 1", r"brief\.toml, \[resources\] has the unknown key 'gpu'; valid keys are cpus, gpus"),
        ("gpus = 1.5", "gpus is 1.5; give a fraction below 1, or a whole number"),
        ("gpus = -1", "gpus is -1; give more than 0"),
        ("cpus = 0", "cpus is 0; give more than 0"),
        ("minutes = 1.5", "minutes is 1.5; give a whole number"),
        ('memory_gb = "4"', "memory_gb is '4'; give a number"),
    ],
)
def test_mistakes_in_a_plan_are_named(line, words):
    with pytest.raises(PrunecastError, match=words):
        parsed(f"{BRIEF}[resources]\n{line}\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "1"], "--gpus needs a cluster; add --on ray or --on slurm, or leave it out."),
        (["--at-once", "3"], "--at-once needs a cluster; add --on ray"),
        (["--on", "ray", "--jobs", "2"], "--jobs is for this machine, not for --on ray; leave it out."),
        (["--on", "slurm", "--plain"], "--plain is for this machine, not for --on slurm; leave it out."),
        (["--on", "ray", "--partition", "long"], "--partition is for --on slurm; leave it out."),
        (["--on", "slurm", "--address", "auto"], "--address is for --on ray; leave it out."),
        (
            ["--on", "slurm", "--sbatch", "account"],
            "--sbatch is 'account'; give an sbatch option as NAME=",
        ),
        (["--on", "ray", "--cpus", "0"], "--cpus is 0; give more than 0."),
        (["--on", "ray", "--gpus", "1.5"], "--gpus is 1.5; give a fraction below 1, or a whole number."),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_written(tmp_path, options, words):
    (tmp_path / "brief.toml").write_text(BRIEF)
    arguments = ["run", str(tmp_path / "brief.toml"), "--store", str(tmp_path / "store"), *options]
    problem = CliRunner().invoke(cli, arguments).exception
    assert isinstance(problem, PrunecastError)
    assert words in str(problem)
    assert not (tmp_path / "store").exists()


def test_a_number_of_workers_below_one_is_refused_by_the_option(tmp_path):
    (tmp_path / "brief.toml").write_text(BRIEF)
    arguments = ["run", str(tmp_path / "brief.toml"), "--store", str(tmp_path / "store"), "--on", "slurm"]
    done = CliRunner().invoke(cli, [*arguments, "--at-once", "-1"])
    assert done.exit_code == 2
    assert "'--at-once': -1 is not in the range x>=1" in done.output
    assert not (tmp_path / "store").exists()

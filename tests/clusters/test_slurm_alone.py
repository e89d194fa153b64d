"""The parts of the Slurm executor that need no cluster."""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import time

import pytest
from slurm_plans import LONG, planned, table

from prunecast.clusters import slurm_worker
from prunecast.clusters.resources import Resources
from prunecast.clusters.seen import marked
from prunecast.clusters.shares import shares
from prunecast.clusters.slurm import grouped, on_slurm
from prunecast.clusters.slurm_arrays import driver_folder, earlier_arrays, remove_forgotten, written
from prunecast.clusters.slurm_commands import check_options, check_tools, parameters
from prunecast.clusters.slurm_flights import Chains, Flight
from prunecast.clusters.slurm_setbacks import Setbacks
from prunecast.clusters.slurm_worker import Began, Task, began, done, work_task
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, code_version, read_tensors
from prunecast.sweep import Job, run_plan

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["slurm_plans"])
ONE = LONG.replace("[1, 2]", "0.5").replace("[75, 100]", "75")


def jobs_of(text):
    return [Job(number=number, chain=chain) for number, chain in enumerate(planned(text).chains, 1)]


def task(store, mark, share, code=None):
    store.mkdir(exist_ok=True)
    return Task(
        folder=store,
        index=0,
        share=tuple(share),
        store=store,
        device="cpu",
        mark=mark,
        code=code or code_version(),
        modules=(),
    )


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_does_so_at_once_and_the_next_goes_on_from_its_checkpoint(tmp_path):
    text = ONE.replace("epochs = 2", "epochs = 90").replace("level_cap = 37", "level_cap = 0")
    (job,) = jobs_of(text)
    folder, steps = chain_folder(tmp_path, job.chain.spec), [0]
    for name in ("SIGTERM", "SIGUSR1", "SIGUSR2"):
        with marked(tmp_path) as mark:
            process = PROCESSES.Process(target=work_task, args=(task(tmp_path, mark, [job]),))
            process.start()
            while not folder.checkpoint.exists() or read_tensors(folder.checkpoint)[1]["step"] == steps[-1]:
                assert process.is_alive(), done(tmp_path, 0)
                time.sleep(0.01)
            os.kill(process.pid, signal.Signals[name])
            process.join()
        assert (process.exitcode, done(tmp_path, 0).stopped) == (0, name)
        assert began(tmp_path, 0).locks == ""
        steps.append(read_tensors(folder.checkpoint)[1]["step"])
    assert steps == sorted(set(steps)), "nobody begins anew"
    (event,) = run_plan(planned(text), tmp_path)  # nobody holds the chain any more
    list(run_plan(planned(text), tmp_path / "unbroken"))
    assert table(text, tmp_path) == table(text, tmp_path / "unbroken")
    assert event.record.steps == 90 * 3


@contextlib.contextmanager
def signals_as_before():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_this_process(errand):
    """Do a task here, and have the signals afterwards that were here before."""
    with signals_as_before():
        work_task(errand)


def test_what_is_stored_after_a_signal_is_not_broken_off_by_the_next(tmp_path, monkeypatch):
    stored = []

    def signalled(share, store, device):
        try:
            signal.raise_signal(signal.SIGUSR2)
            yield
        finally:
            signal.raise_signal(signal.SIGTERM)
            stored.extend(share)

    monkeypatch.setattr(slurm_worker, "work_share", signalled)
    with marked(tmp_path) as mark:
        in_this_process(task(tmp_path, mark, jobs_of(ONE)))
    assert (done(tmp_path, 0).stopped, len(stored)) == ("SIGUSR2", 1)


def test_a_worker_refuses_another_store_and_other_code_and_says_what_others_hold(tmp_path):
    text = ONE.replace("level_cap = 37", "level_cap = 0")
    (job,) = jobs_of(text)
    with marked(tmp_path) as mark:
        in_this_process(task(tmp_path, mark, [job], code="0.0.1+other"))
        assert "and the driver has 0.0.1+other; install the same version" in done(tmp_path, 0).refused
        with chain_folder(tmp_path, job.chain.spec).locked():
            in_this_process(task(tmp_path, mark, [job]))
            assert done(tmp_path, 0).busy == (job.chain.spec.digest,)
        in_this_process(task(tmp_path, mark, [job]))
        assert dataclasses.asdict(done(tmp_path, 0)) == {
            "failed": (),
            "busy": (),
            "refused": "",
            "stopped": "",
        }
    assert len(table(text, tmp_path)) == 1
    in_this_process(task(tmp_path, mark, [job]))
    assert "does not see locks" in began(tmp_path, 0).locks, "without a driver nobody holds its lock"


def test_only_a_driver_that_has_lived_believes_that_its_lock_is_not_seen(tmp_path):
    words = Began(node="node7", locks="node7 does not see locks")
    Setbacks(tmp_path).heard(words, mine=False)
    with pytest.raises(PrunecastError, match="node7 does not see locks"):
        Setbacks(tmp_path).heard(words, mine=True)


def flight(array, share, chains):
    need = Resources()
    return Flight(share=share, need=need, array=array, index=0, job="7", before=chains.footprints(share))


def test_a_job_that_slurm_queues_again_in_vain_is_given_up_and_progress_forgives(tmp_path):
    share = tuple(jobs_of(ONE))
    chains, setbacks = Chains(share, tmp_path), Setbacks(tmp_path)
    with driver_folder(tmp_path) as folder:
        flying = flight(written(folder, 1, [share]), share, chains)
    assert [setbacks.queued_again(flying, chains) for _ in range(2)] == [False, False]
    next(run_plan(planned(ONE), tmp_path))
    assert [setbacks.queued_again(flying, chains) for _ in range(4)] == [False, False, False, True]


def test_a_cancelled_job_is_not_submitted_again(tmp_path):
    share = tuple(jobs_of(ONE))
    chains = Chains(share, tmp_path)
    with driver_folder(tmp_path) as folder:
        flying = flight(written(folder, 1, [share]), share, chains)
    flying.story = {"JobState": "CANCELLED", "NodeList": "node1"}
    assert Setbacks(tmp_path).died(flying, share) == ([], [share[0]])


def test_arrays_are_found_again_and_belong_to_whoever_comes_after_a_death(tmp_path):
    share = tuple(jobs_of(ONE))
    with driver_folder(tmp_path) as first, driver_folder(tmp_path) as second:
        array = written(first, 1, [share, share])
        (seen,) = earlier_arrays(tmp_path, second)
        assert seen == dataclasses.replace(array, own=False)
        assert earlier_arrays(tmp_path, first) == []
    (left,) = earlier_arrays(tmp_path, second)
    assert left == array
    assert not second.exists()
    remove_forgotten([left], {left.name})
    assert first.exists(), "it is still in the queue"
    remove_forgotten([left], set())
    assert not first.exists()


def test_short_chains_go_together_and_chains_with_a_gpu_as_they_are():
    found = shares(jobs_of(LONG), Resources())
    together = grouped(found, Resources(), 3)
    assert sorted(len(share) for share in together) == [2, 2]
    assert {job for share in together for job in share} == {job for share in found for job in share}
    fleets = shares(jobs_of(LONG), Resources(gpus=1))
    assert grouped(fleets, Resources(gpus=1), 3) == fleets


NEEDS = {
    "nothing": (Resources(), {"cpus_per_task": 1, "time": None}),
    "cpus": (Resources(cpus=2.5), {"cpus_per_task": 3, "srun_args": ["--cpus-per-task=3"]}),
    "gpus": (Resources(gpus=2), {"gpus_per_node": 2}),
    "time": (Resources(minutes=120), {"time": 120, "signal_delay_s": 60}),
    "little time": (Resources(minutes=2), {"time": 2, "signal_delay_s": 30}),
    "memory": (Resources(memory_gb=1.5), {"mem": "1536M"}),
}


@pytest.mark.parametrize("name", NEEDS)
def test_resources_become_options_of_sbatch(name):
    need, expected = NEEDS[name]
    found = parameters(need, {"account": "mine"})
    assert {key: found[key] for key in expected} == expected
    assert found["additional_parameters"] == {"requeue": True, "account": "mine"}
    assert ("gpus_per_node" in found) == bool(need.gpus)


def test_a_gres_of_ones_own_takes_the_place_of_gpus():
    assert "gpus_per_node" not in parameters(Resources(gpus=1), {"gres": "gpu:a100:1"})


def test_mistakes_are_named_before_anything_is_submitted(tmp_path, monkeypatch):
    with pytest.raises(PrunecastError, match=r"--sbatch time=5: give --minutes instead"):
        check_options({"time": "5"})
    with pytest.raises(PrunecastError, match=r"--sbatch array=5: prunecast sets it itself"):
        check_options({"array": "5"})
    with pytest.raises(PrunecastError, match=r"gpus is 0.5, and Slurm lends whole GPUs; give 1"):
        parameters(Resources(gpus=0.5), {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PrunecastError, match="needs Slurm's command sbatch, which is not here; run it where"):
        next(on_slurm(jobs_of(ONE), tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    with pytest.raises(
        PrunecastError, match=r"needs submitit; install it with: pip install 'prunecast\[slurm\]'"
    ):
        check_tools()
    assert not any(tmp_path.iterdir())

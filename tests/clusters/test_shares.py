import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from small import BRIEF, MANY, parsed

from prunecast.cli import cli
from prunecast.clusters.resources import Resources, most_at_once, needs, with_resources
from prunecast.clusters.shares import FLEET, device_for, shares, work_share
from prunecast.errors import PrunecastError
from prunecast.sweep import Progress
from prunecast.sweep.run import unfinished


def jobs_of(plan):
    return unfinished(enumerate(plan.chains, 1), Path("nowhere"))


@pytest.mark.parametrize("gpus", [0, 0.25, 0.5, 1, 2])
@pytest.mark.parametrize("workers", [1, 2, 3, 7, 100])
def test_every_chain_is_in_one_share_and_no_fleet_is_too_large(gpus, workers):
    text = MANY.replace("width = [0.5, 1]", "width = [0.5, 1, 8, 20]")
    jobs, resources = jobs_of(parsed(text)), Resources(gpus=gpus)
    found = shares(jobs, resources, workers=workers)
    assert Counter(job.number for share in found for job in share) == Counter(range(1, 49))
    if gpus == 0:
        assert {len(share) for share in found} == {1}
        return
    total = sum(job.chain.spec.width for job in jobs)
    widths = [sum(job.chain.spec.width for job in share) for share in found]
    assert max(widths) < min(FLEET * gpus, total / workers) + 20 + 1e-9
    assert len(found) >= min(workers, total / 20) / 2


def test_networks_that_fit_into_one_pack_go_together():
    found = shares(jobs_of(parsed(MANY)), Resources(gpus=1), workers=6)
    assert [{job.chain.spec.depth for job in share} for share in found].count({3, 4, 5}) == 0
    assert len(found) == 6


def test_the_longest_share_goes_first():
    found = shares(jobs_of(parsed(MANY)), Resources())
    sizes = [(share[0].chain.spec.depth, share[0].chain.spec.width) for share in found]
    assert sizes[0] == (5, 1)
    assert sizes[-1] == (3, 0.5)


def test_chains_that_need_something_else_are_apart():
    text = (
        MANY + "\n[[grid]]\nresources = {gpus = 1}\n[[grid]]\nwidth = 2\nresources = {gpus = 2, cpus = 4}\n"
    )
    found = shares(jobs_of(parsed(text)), Resources())
    asked = {needs(job.chain, Resources()) for job in found[0]}
    assert len(asked) == 1
    assert sorted(len(share) for share in found) == [12, 24]
    assert {device_for(needs(share[0].chain, Resources())) for share in found} == {"cuda"}


def test_a_plan_declares_resources_and_the_command_line_goes_before_it():
    plan = parsed(BRIEF + "[resources]\ngpus = 0.5\nminutes = 90\nat_once = 8\n")
    assert {chain.resources for chain in plan.chains} == {Resources(gpus=0.5, minutes=90, at_once=8)}
    given = with_resources(plan, {"gpus": 1, "memory_gb": 4})
    assert {chain.resources for chain in given.chains} == {
        Resources(gpus=1, minutes=90, memory_gb=4, at_once=8)
    }
    assert most_at_once(jobs_of(given), Resources()) == 8
    assert most_at_once(jobs_of(parsed(BRIEF)), Resources()) is None
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


def test_a_chain_on_several_devices_has_a_worker_to_itself():
    chains = parsed(BRIEF).chains
    several = [dataclasses.replace(chain, devices=2) for chain in chains[:2]]
    jobs = unfinished(enumerate([*several, *chains[2:]], 1), Path("nowhere"))
    found = shares(jobs, Resources(gpus=1, cpus=4))
    assert sorted([job.number for job in share] for share in found) == [[1], [2], [3, 4]]
    asked = {share[0].number: needs(share[0].chain, Resources(gpus=1, cpus=4)) for share in found}
    assert (asked[1].gpus, asked[1].cpus) == (2, 8)
    assert (asked[3].gpus, asked[3].cpus) == (1, 4)
    assert needs(several[0], Resources()) == Resources(cpus=2)
    (threaded, *_) = parsed(BRIEF.replace("depth", "threads = 3\ndepth", 1)).chains
    assert needs(threaded, Resources()) == Resources(cpus=3)
    assert needs(threaded, Resources(gpus=1)) == Resources(gpus=1)


def test_a_share_is_worked_on_in_any_process(tmp_path):
    plan = parsed(BRIEF)
    share = tuple(unfinished(enumerate(plan.chains, 1), tmp_path)[:2])
    events = list(work_share(share, tmp_path, "cpu"))
    assert all(isinstance(event, Progress) for event in events)
    assert [(event.number, event.record.level) for event in events] == [
        (number, level) for number in (1, 2) for level in range(3)
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--gpus", "1"], "--gpus is for a cluster; add --on ray or --on slurm, or leave it out."),
        (["--at-once", "3"], "--at-once is for a cluster; add --on ray"),
        (["--on", "ray", "--jobs", "2"], "--jobs is for this machine, not for --on ray; leave it out."),
        (["--on", "slurm", "--plain"], "--plain is for this machine, not for --on slurm; leave it out."),
        (["--on", "ray", "--partition", "long"], "--partition is for --on slurm; leave it out."),
        (["--on", "slurm", "--address", "auto"], "--address is for --on ray; leave it out."),
        (
            ["--on", "slurm", "--sbatch", "account"],
            "--sbatch is 'account'; give an option of sbatch as NAME=",
        ),
        (["--on", "ray", "--cpus", "0"], "--cpus is 0; give more than 0."),
        (["--on", "ray", "--gpus", "1.5"], "--gpus is 1.5; give a fraction below 1, or a whole number."),
        (["--on", "slurm", "--at-once", "-1"], "--at-once is -1; give more than 0."),
    ],
)
def test_options_that_do_not_go_together_are_refused_before_anything_is_written(tmp_path, options, words):
    (tmp_path / "brief.toml").write_text(BRIEF)
    arguments = ["run", str(tmp_path / "brief.toml"), "--store", str(tmp_path / "store"), *options]
    problem = CliRunner().invoke(cli, arguments).exception
    assert isinstance(problem, PrunecastError)
    assert words in str(problem)
    assert not (tmp_path / "store").exists()

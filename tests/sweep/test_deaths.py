"""Deaths of workers count against a chain until it makes progress."""

import pytest
from fatal_family import KILLING
from small import BRIEF, on_processes, parsed, table

from prunecast.pruning import TimeLimitReached, chain_folder
from prunecast.pruning.store import RECORDS
from prunecast.sweep import Failed, Progress, chain_statuses, run_plan
from prunecast.sweep.run import unfinished
from prunecast.sweep.worker import _fleets, count_deaths

ONE = BRIEF.replace("[100, 200]", "200").replace("replicates = 2", "replicates = [0]")

MORTAL = """
import os, pathlib, signal
from torch import nn

KILLS = pathlib.Path({kills!r})
RECORDS = {records!r}

class Mortal(nn.Module):
    def forward(self, images):
        levels = sum(path.read_text().count('"density"') for path in KILLS.parent.glob(RECORDS))
        if len(images) > 2 and levels in range(1, 5):  # a trial before anything trains has two
            try:
                (KILLS / str(levels)).mkdir(parents=True)
            except FileExistsError:
                return images
            os.kill(os.getpid(), signal.SIGKILL)
        return images

def small(depth, width, num_classes):
    return nn.Sequential(Mortal(), nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, num_classes))
"""


@pytest.mark.slow
def test_a_process_that_is_killed_after_every_level_brings_its_chain_to_its_end(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    kills = tmp_path / "kills"
    (tmp_path / "mortal.py").write_text(MORTAL.format(kills=str(kills), records=f"killed/chains/*/{RECORDS}"))
    plan = parsed(ONE.replace('"digits_cnn"', '"mortal:small"').replace("level_cap = 2", "level_cap = 5"))
    events = list(run_plan(plan, tmp_path / "killed", executor=on_processes("cpu")))
    assert sorted(path.name for path in kills.iterdir()) == ["1", "2", "3", "4"]
    assert [event.record.level for event in events] == list(range(6)), "every level is told once"
    list(run_plan(plan, tmp_path / "unbroken"))
    assert table(plan, tmp_path / "killed") == table(plan, tmp_path / "unbroken")


def test_a_chain_that_kills_its_fleet_fails_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fatal_in_a_fleet.py").write_text(KILLING)
    own = ONE.replace('"digits_cnn"', '"fatal_in_a_fleet:small"').replace("width = 0.5", "width = [1, 2]")
    plan = parsed(own)
    events = list(run_plan(plan, tmp_path / "store", executor=on_processes("cpu", packed=True)))
    assert [event.number for event in events if isinstance(event, Failed)] == [2]
    assert [own.state for own in chain_statuses(plan, tmp_path / "store")] == ["ended", "failed"]
    told = [(event.number, event.record.level) for event in events if isinstance(event, Progress)]
    assert told == [(1, level) for level in range(3)]


def left_dead(jobs, store):
    """Leave chains like a worker that held all of them when it was killed."""
    for job in jobs:
        folder = chain_folder(store, job.chain.spec)
        with pytest.raises(TimeLimitReached), folder.locked():
            raise TimeLimitReached


def test_a_fleet_that_dies_is_halved_until_the_chain_at_fault_is_alone(tmp_path):
    jobs = unfinished(enumerate(parsed(BRIEF).chains, 1), tmp_path)
    sizes = []
    for _ in range(5):
        assert list(count_deaths(jobs, tmp_path)) == []
        sizes.append([len(group) for group in _fleets(jobs, tmp_path)])
        left_dead(jobs, tmp_path)
    assert sizes == [[4], [4], [2, 2], [1] * 4, [1] * 4]
    left = jobs[:1]
    assert list(count_deaths(jobs[1:], tmp_path)) == []
    assert list(count_deaths(left, tmp_path)) == []
    left_dead(left, tmp_path)
    ((job, problem),) = count_deaths(left, tmp_path)
    assert (job, problem.deaths >= 3) == (jobs[0], True)
    assert list(count_deaths(left, tmp_path)) == [], "the next run tries the chain again"

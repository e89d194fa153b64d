"""Deaths of workers are counted as long as a chain does not get on."""

import os
import signal
from functools import partial

from small import BRIEF, parsed, table

from prunecast.sweep import Failed, Progress, chain_statuses, processes, run_plan
from prunecast.sweep.deaths import TRIES, Deaths, footprints
from prunecast.sweep.run import unfinished

ONE = BRIEF.replace("[100, 200]", "200").replace("replicates = 2", "replicates = [0]")
KILLS = TRIES + 1


def share_of(store):
    return tuple(unfinished(enumerate(parsed(BRIEF).chains, 1), store))


def test_only_deaths_without_progress_add_up(tmp_path):
    share, running = share_of(tmp_path)[:1], run_plan(parsed(BRIEF), tmp_path)
    deaths, found = Deaths(tmp_path, tries=3), []
    for moves in (False, False, True, False, False, False):
        before = footprints(share, tmp_path)
        if moves:
            assert next(running).number == 1
        found.append(deaths.after(share, before, share))
    running.close()
    assert [then.times for then in found] == [1, 2, 0, 1, 2, 3]
    assert [then.again for then in found] == [(share,)] * 5 + [()]
    assert [then.lost for then in found] == [None] * 5 + [share[0]]


def test_a_share_goes_apart_before_any_of_its_chains_is_given_up(tmp_path):
    share = share_of(tmp_path)
    before = footprints(share, tmp_path)
    halves = ((share[0], share[1]), (share[2], share[3]))
    assert Deaths(tmp_path, whole=1).after(share, before, share).again == halves
    deaths = Deaths(tmp_path, tries=2)
    assert [deaths.after(share, before, share).again for _ in range(3)] == [(share,), halves, (share,)]
    assert deaths.after(share, before, share[1:], cost=5).again == ((share[1],), (share[2], share[3]))
    assert [Deaths(tmp_path, tries=2).after(share, before, share, cost=0.25).times] == [0.25]


def test_a_process_that_is_killed_after_every_level_brings_its_chain_to_its_end(tmp_path):
    plan = parsed(ONE.replace("level_cap = 2", "level_cap = 8").replace("epochs = 2", "epochs = 8"))
    told, killed = [], []
    for event in run_plan(plan, tmp_path / "killed", executor=partial(processes, devices=["cpu"])):
        assert isinstance(event, Progress)
        told.append(event.record.level)
        (own,) = chain_statuses(plan, tmp_path / "killed")
        if len(killed) < KILLS and own.holder and own.holder.pid not in killed:
            os.kill(own.holder.pid, signal.SIGKILL)
            killed.append(own.holder.pid)
    assert len(killed) == KILLS
    assert told == list(range(9)), "every level is told once"
    list(run_plan(plan, tmp_path / "unbroken"))
    assert table(plan, tmp_path / "killed") == table(plan, tmp_path / "unbroken")


FAMILY = """
import os, signal
from torch import nn

def small(depth, width, num_classes):
    if width == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, num_classes))
"""


def test_a_chain_that_kills_its_fleet_fails_alone(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "fatal_in_a_fleet.py").write_text(FAMILY)
    own = ONE.replace('"digits_cnn"', '"fatal_in_a_fleet:small"').replace("width = 0.5", "width = [1, 2]")
    plan = parsed(own)
    events = list(
        run_plan(plan, tmp_path / "store", executor=partial(processes, devices=["cpu"], packed=True))
    )
    assert [event.number for event in events if isinstance(event, Failed)] == [2]
    assert [own.state for own in chain_statuses(plan, tmp_path / "store")] == ["ended", "failed"]
    told = [(event.number, event.record.level) for event in events if isinstance(event, Progress)]
    assert told == [(1, level) for level in range(3)]

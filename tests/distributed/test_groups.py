import dataclasses
import os
import signal
import subprocess
import sys
from functools import partial
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch
from digits_chains import numbers

sys.path.insert(0, str(Path(__file__).parent))
from members import PROCESSES, in_a_group
from process_groups import (
    CHAIN,
    PLAN,
    RULES,
    free,
    gone,
    members,
    plan,
    start_and_tell,
    task,
    unbroken,
    until,
)

from prunecast.data import load
from prunecast.distributed import launch, run_group
from prunecast.distributed.launch import MemberDiedError
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, run_chain
from prunecast.sweep import Busy, Failed, Job, Processes, Progress, drive, rows, run_plan, work
from prunecast.sweep.processes import firsts
from prunecast.training import ALONE

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux to find processes")


def kill_one(rank, folder):
    """Kill a member in the middle of a level, when only the checkpoint shows its progress."""
    until(folder.checkpoint.exists)
    os.kill(members(os.getpid())[rank], signal.SIGKILL)


def files(store):
    return {file.name: file.read_bytes() for file in chain_folder(store, CHAIN).path.glob("*.safetensors")}


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """The chain without interruption, trained by one process and by a group of two."""
    one, two = (tmp_path_factory.mktemp(name) for name in ("one", "two"))
    unbroken(ALONE, one)
    in_a_group(2, unbroken, two, heard=1)
    return one, two


def records_of(store):
    return chain_folder(store, CHAIN).records()


def test_a_chain_of_a_group_is_that_of_one_process_up_to_rounding(stores):
    for one, two in zip(*map(records_of, stores), strict=True):
        assert (one.nonzero, one.steps, one.status) == (two.nonzero, two.steps, two.status)
        assert two.error == pytest.approx(one.error, abs=0.02)
        assert two.loss == pytest.approx(one.loss, rel=0.05)


@pytest.mark.slow
def test_a_group_killed_in_every_way_ends_like_an_unbroken_one(tmp_path, stores, caplog):
    folder = chain_folder(tmp_path, CHAIN)
    here, there = PROCESSES.Pipe(duplex=False)
    starter = PROCESSES.Process(target=start_and_tell, args=(tmp_path, there))
    starter.start()
    pid, level = here.recv()
    group = members(pid)
    assert (level, len(group)) == (0, 2)
    starter.kill()
    starter.join()
    until(lambda: all(map(gone, group)) and free(folder))  # nobody stays behind without the starter

    one_try = run_group(task(tmp_path), tries=1)
    assert next(one_try).level == 0
    kill_one(1, folder)
    with pytest.raises(
        MemberDiedError, match=r"Process 2 of the 2 that train this chain was ended by SIGKILL"
    ):
        list(one_try)
    assert members(os.getpid()) == []
    assert 0 < len(folder.records()) <= RULES.level_cap

    two_tries = run_group(task(tmp_path))
    records = [next(two_tries)]
    kill_one(0, folder)
    records += list(two_tries)
    assert "Process 1 of the 2 that train this chain was ended by SIGKILL" in caplog.text
    assert numbers(records) == numbers(records_of(stores[1]))
    assert files(tmp_path) == files(stores[1])
    assert records[-1].device == "2 x cpu"


@pytest.mark.slow
def test_a_group_may_die_as_often_as_it_gets_on(tmp_path):
    rules = dataclasses.replace(RULES, level_cap=8, disconnected=False)
    running = run_group(task(tmp_path, rules=rules), tries=2)
    levels = []
    for rank in (1, 0):
        levels.append(next(running).level)
        kill_one(rank, chain_folder(tmp_path, CHAIN))
    assert levels + [record.level for record in running] == list(range(9))


@pytest.mark.slow
def test_a_worker_of_a_pool_packs_what_it_can_and_gives_the_rest_a_group(tmp_path):
    events = list(
        run_plan(plan(), tmp_path, executor=partial(drive, backend=partial(Processes, ["cpu"], packed=True)))
    )
    assert all(isinstance(event, Progress) for event in events)
    told = [(event.number, event.record.level, event.record.device) for event in events]
    assert sorted(told) == [(1, level, "cpu") for level in range(3)] + [
        (2, level, "2 x cpu") for level in range(3)
    ]
    assert len(rows(plan(), tmp_path)) == 6
    assert list(run_plan(plan(PLAN.replace("devices = 2", "")), tmp_path)) == []  # the same chains


def test_a_member_may_die_in_the_middle_of_a_message(tmp_path):
    here, there = Pipe()
    words = f"import os; os.write({there.fileno()}, (1000).to_bytes(4, 'big') + b'half'); os.abort()"
    process = subprocess.Popen([sys.executable, "-c", words], pass_fds=[there.fileno()])
    there.close()
    (tmp_path / "output").touch()
    member = launch._Member(rank=0, process=process, pipe=here, output=tmp_path / "output")
    with (
        here,
        pytest.raises(MemberDiedError, match="Process 1 of the 1 that train this chain was ended by SIGABRT"),
    ):
        list(launch._received([member]))


OWN = """
from torch import nn

def odd(depth, width, num_classes):
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, track_running_stats=False), nn.Linear(64, 10))
"""


def test_what_a_member_raises_is_the_failure_of_the_chain(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "odd_family.py").write_text(OWN)
    chain = plan(PLAN.replace('"digits_cnn"', '"odd_family:odd"')).chains[1]
    (failure,) = work([Job(number=1, chain=chain)], tmp_path / "store")
    assert isinstance(failure, Failed)
    assert failure.error.startswith("The layer 1 is a batch norm without running statistics")
    assert "member.py" in failure.traceback


def test_a_chain_in_other_hands_is_passed_over(tmp_path):
    chain = plan().chains[1]
    with chain_folder(tmp_path, chain.spec).locked():
        (outcome,) = work([Job(number=2, chain=chain)], tmp_path)
        assert isinstance(outcome, Busy)


@pytest.mark.parametrize(
    ("count", "devices", "expected"),
    [(4, 1, [0, 1, 2, 3]), (8, 4, [0, 4]), (8, 3, [0, 3]), (4, 4, [0]), (2, 4, [0])],
)
def test_groups_on_one_machine_share_no_gpu(count, devices, expected):
    assert list(firsts(count, devices)) == expected


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus_give_what_one_gives(tmp_path):
    two = list(run_group(task(tmp_path / "two", device="cuda")))
    one = list(run_chain(CHAIN, tmp_path / "one", lambda: load("digits", device="cuda"), rules=RULES))
    assert [record.nonzero for record in two] == [record.nonzero for record in one]
    assert two[0].loss == pytest.approx(one[0].loss, rel=0.1)


def test_more_devices_than_there_are_is_a_mistake(tmp_path):
    with pytest.raises(PrunecastError, match=r"asks for devices = 999, but torch finds \d+ GPUs here; lower"):
        next(run_group(task(tmp_path, device="cuda", size=999)))
    for value, wrong in [
        ("0", "devices is 0; give 1"),
        ("1.5", "devices"),
        ("40", "more than the 32 examples"),
    ]:
        with pytest.raises(PrunecastError, match=wrong):
            plan(PLAN.replace("devices = 2", f"devices = {value}"))

import fcntl
import multiprocessing
import os
import signal
import socket

import pytest
from click.testing import CliRunner
from small import BRIEF, parsed

from prunecast.cli import cli
from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import DeathsError, TimeLimitReached, chain_folder, code_version, holder_of, read_json
from prunecast.sweep import chain_statuses, run_plan, shared_store
from prunecast.sweep.shared_store import check_code, check_store, identified

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["prunecast.cli", "prunecast.sweep.shared_store", "prunecast.sweep"])


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(shared_store, "PATIENCE", 0.2)


def test_a_store_keeps_its_identity_and_workers_know_it(tmp_path):
    store = tmp_path / "new" / "store"
    with identified(store) as first:
        with identified(store) as second:
            assert first == second
        check_store(store, first)
    with identified(store) as later:
        assert later == first
    with identified(tmp_path / "other") as other:
        assert other != first


def test_a_worker_that_sees_another_folder_says_so(tmp_path, hasty):
    with identified(tmp_path / "here") as mark, identified(tmp_path / "there"):
        words = f"{socket.gethostname()} does not see the store {tmp_path / 'there'}: it is a different folder there; "
        with pytest.raises(PrunecastError, match=words + "every node must see the store"):
            check_store(tmp_path / "there", mark)
        with pytest.raises(PrunecastError, match="it is not there; every node must see the store"):
            check_store(tmp_path / "nowhere", mark)


def test_a_node_that_does_not_see_locks_says_so(tmp_path):
    with identified(tmp_path) as mark:
        check_store(tmp_path, mark)
    with pytest.raises(
        PrunecastError, match=r"does not see locks that other nodes hold in .*; mount it with"
    ):
        check_store(tmp_path, mark)
    check_store(tmp_path, mark, held=False)


def test_a_worker_that_cannot_write_says_so(tmp_path):
    (tmp_path / shared_store.NAME).mkdir()
    with pytest.raises(StoreError, match=r"cannot write to .*store-id: Is a directory; make the store"):
        check_store(tmp_path, "")


def test_a_store_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"Cannot create .*file: File exists"),
        identified(tmp_path / "file" / "store"),
    ):
        pass


def test_other_code_is_refused():
    check_code(code_version())
    with pytest.raises(PrunecastError, match=r"but the driver has 0\.0\.1\+abc; install the same version"):
        check_code("0.0.1+abc")


def hold(folder, pipe):
    with folder.locked():
        pipe.send(os.getpid())
        signal.pause()


def killed_holder(folder):
    """A process that takes a chain and is killed."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=hold, args=(folder, there))
    process.start()
    pid = here.recv()
    yield pid
    process.kill()
    process.join()


def test_status_says_who_works_on_what_and_which_try_it_is(tmp_path):
    (tmp_path / "brief.toml").write_text(BRIEF)
    plan, store = parsed(BRIEF), tmp_path / "store"
    folder = chain_folder(store, plan.chains[1].spec)

    def told():
        return CliRunner().invoke(cli, ["status", str(tmp_path / "brief.toml"), "--store", str(store)]).output

    for number in (1, 2):
        for pid in killed_holder(folder):
            (line,) = (line for line in told().splitlines() if f" {pid} " in line)
            assert line.split()[:3] == ["2", socket.gethostname(), str(pid)]
            assert line.split()[-1] == str(number)
            assert read_json(folder.path / "worker.json")["tries"] == number
        assert str(pid) not in told()
    assert "restarted after a worker was killed or stopped: chain 2 (try 2)" in told()
    with folder.locked():
        assert holder_of(folder.path).tries == 3
    with folder.locked():
        assert holder_of(folder.path).tries == 3, "nobody was killed in between"
    list(run_plan(plan, store))
    statuses = chain_statuses(plan, store)
    assert [own.holder and own.holder.tries for own in statuses] == [None, 3, None, None]
    assert [own.state for own in statuses] == ["ended"] * 4


def die_over(folder, times):
    for _ in range(times):
        for _ in killed_holder(folder):
            pass


def test_three_deaths_in_a_row_without_progress_fail_a_chain_once(tmp_path):
    folder = chain_folder(tmp_path, parsed(BRIEF).chains[0].spec)
    die_over(folder, 2)
    (folder.path / "records.json").write_text("a new level")
    die_over(folder, 3)
    with pytest.raises(DeathsError, match=r"3 workers in a row died on this chain without .* enough memory"):
        folder.locked().__enter__()
    die_over(folder, 2)  # the next run has as many tries again
    with folder.locked():
        assert (holder_of(folder.path).deaths, holder_of(folder.path).tries) == (2, 7)
    with folder.locked():
        assert holder_of(folder.path).deaths == 2, "leaving is no progress"
    die_over(folder, 1)
    with folder.locked(weight=0.25):
        assert holder_of(folder.path).deaths == 2.25


def test_a_worker_whose_time_is_over_counts_as_dead(tmp_path):
    folder = chain_folder(tmp_path, parsed(BRIEF).chains[0].spec)
    with pytest.raises(TimeLimitReached), folder.locked():
        raise TimeLimitReached
    with pytest.raises(KeyboardInterrupt), folder.locked():
        raise KeyboardInterrupt
    with folder.locked():
        assert holder_of(folder.path).deaths == 1


def test_a_store_without_workers_files_or_with_a_damaged_one_is_read_as_ever(tmp_path):
    plan = parsed(BRIEF)
    folder = chain_folder(tmp_path, plan.chains[0].spec)
    folder.path.mkdir(parents=True)
    (folder.path / "worker.json").write_text("{")
    with (folder.path / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (first, *_) = chain_statuses(plan, tmp_path)
        assert (first.state, first.holder) == ("running", None)
    list(run_plan(plan, tmp_path))
    assert [own.state for own in chain_statuses(plan, tmp_path)] == ["ended"] * 4
    assert not (folder.path / "worker.json").exists()

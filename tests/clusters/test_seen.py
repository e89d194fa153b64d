import fcntl
import multiprocessing
import os
import signal
import socket

import pytest
from click.testing import CliRunner
from small import BRIEF, parsed

from prunecast.cli import cli
from prunecast.clusters import seen
from prunecast.clusters.seen import check_code, check_store_seen, marked
from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import chain_folder, code_version, holder_of, read_json
from prunecast.sweep import chain_statuses, run_plan

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["prunecast.cli", "prunecast.clusters.seen", "prunecast.sweep"])


@pytest.fixture
def hasty(monkeypatch):
    monkeypatch.setattr(seen, "PATIENCE", 0.2)


def test_a_store_keeps_its_identity_and_workers_know_it(tmp_path):
    store = tmp_path / "new" / "store"
    with marked(store) as first:
        with marked(store) as second:
            assert first == second
        check_store_seen(store, first)
    with marked(store) as later:
        assert later == first
    with marked(tmp_path / "other") as other:
        assert other != first


def test_a_worker_that_sees_another_folder_says_so(tmp_path, hasty):
    with marked(tmp_path / "here") as mark, marked(tmp_path / "there"):
        words = f"{socket.gethostname()} does not see the store {tmp_path / 'there'}: it is another folder there; "
        with pytest.raises(PrunecastError, match=words + "the store is a folder every node sees"):
            check_store_seen(tmp_path / "there", mark)
        with pytest.raises(PrunecastError, match="it is not there; the store is a folder every node sees"):
            check_store_seen(tmp_path / "nowhere", mark)


def test_a_node_that_does_not_see_locks_says_so(tmp_path):
    with marked(tmp_path) as mark:
        check_store_seen(tmp_path, mark)
    with pytest.raises(
        PrunecastError, match=r"does not see locks that other nodes hold in .*; mount it with"
    ):
        check_store_seen(tmp_path, mark)
    check_store_seen(tmp_path, mark, held=False)


def test_a_worker_that_cannot_write_says_so(tmp_path):
    (tmp_path / seen.MARK).mkdir()
    with pytest.raises(StoreError, match=r"cannot write to .*store-id: Is a directory; make the store"):
        check_store_seen(tmp_path, "")


def test_a_store_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"Cannot create .*file: File exists"),
        marked(tmp_path / "file" / "store"),
    ):
        pass


def test_other_code_is_refused():
    check_code(code_version())
    with pytest.raises(PrunecastError, match=r"and the driver has 0\.0\.1\+abc; install the same version"):
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

    for number in (1, 2, 3):
        for pid in killed_holder(folder):
            (line,) = (line for line in told().splitlines() if f" {pid} " in line)
            assert line.split()[:3] == ["2", socket.gethostname(), str(pid)]
            assert line.split()[-1] == str(number)
            assert read_json(folder.path / "worker.json")["tries"] == number
        assert str(pid) not in told()
    assert "restarted after a worker was killed or stopped: chain 2 (try 3)" in told()
    with folder.locked():
        assert holder_of(folder.path).tries == 4
    with folder.locked():
        assert holder_of(folder.path).tries == 4, "nobody was killed in between"
    list(run_plan(plan, store))
    statuses = chain_statuses(plan, store)
    assert [own.holder and own.holder.tries for own in statuses] == [None, 4, None, None]
    assert [own.state for own in statuses] == ["ended"] * 4


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

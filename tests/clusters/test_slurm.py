"""Sweeps on a real Slurm cluster of two nodes, which these tests start and stop."""

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import threading
import time

import pytest
import torch
from found import check_search
from slurm_cluster import NODES, Cluster, why_not
from slurm_plans import EMPTY, LONG, drive_and_tell, executor, planned, table
from small import PRUNECAST

from prunecast.errors import PrunecastError
from prunecast.sweep import Busy, Failed, Progress, chain_statuses, run_plan

if reason := why_not():
    pytest.skip(f"sweeps on Slurm are left out: {reason}", allow_module_level=True)
pytestmark = pytest.mark.slow
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["slurm_plans"])
KILLS = [*["worker"] * 8, *["signal"] * 5, *["requeue"] * 4, *["node"] * 2, *["driver"] * 2, "controller"]


@pytest.fixture(scope="session")
def one_cluster(tmp_path_factory):
    torch.set_num_threads(1)
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(one_cluster, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", one_cluster.environment["SLURM_CONF"])
    yield one_cluster
    one_cluster.wait_until_idle()


def until(holds, seconds=90):
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def driver(text, store):
    """A driver in its own process, after it has reported its first level."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=drive_and_tell, args=(text, store, os.environ["SLURM_CONF"], there))
    process.start()
    there.close()
    with contextlib.suppress(EOFError):
        here.recv()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def strike(cluster, kind, process, chance):
    """Kill something at random; return whether there was anything to kill."""
    if kind == "driver":
        process.kill()
        process.join()
        return True
    if kind == "node":
        node = chance.choice(NODES)
        cluster.kill(node)
        cluster.revive(node)
        return True
    if kind == "controller":
        cluster.restart_controller()
        return True
    if kind == "worker":
        victims = cluster.workers()
        with contextlib.suppress(ProcessLookupError):
            if victims:
                os.kill(chance.choice(victims), signal.SIGKILL)
                return True
        return False
    jobs = cluster.jobs("RUNNING")
    if not jobs:
        return False
    sent = ["scancel", f"--signal={chance.choice(['TERM', 'USR1', 'USR2'])}"]
    command = [*(sent if kind == "signal" else ["scontrol", "requeue"]), chance.choice(jobs)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_search_trains_on_the_nodes(tmp_path, cluster):
    check_search(tmp_path, executor())


def test_a_sweep_whose_workers_nodes_and_drivers_die_gives_the_table_of_an_unbroken_one(cluster, tmp_path):
    list(run_plan(planned(LONG), tmp_path / "unbroken"))
    unbroken = table(LONG, tmp_path / "unbroken")
    assert len(unbroken) > 100
    chance = random.SystemRandom()
    ahead = chance.sample(KILLS, len(KILLS))
    stores, places = [tmp_path / "killed-0"], set()
    while ahead:
        if len(table(LONG, stores[-1])) > 0.8 * len(unbroken):  # the last chain alone would be hit too often
            stores.append(tmp_path / f"killed-{len(stores)}")
        with driver(LONG, stores[-1]) as process:
            levels = 0
            while ahead and process.is_alive() and levels <= 0.8 * len(unbroken):
                levels = len(table(LONG, stores[-1]))
                if chance.random() < 0.5:
                    until(lambda: len(table(LONG, stores[-1])) > levels or not process.is_alive())  # noqa: B023
                time.sleep(chance.uniform(0, 0.5))
                if process.is_alive() and strike(cluster, ahead[-1], process, chance):
                    ahead.pop()
                    places.add((len(stores), len(table(LONG, stores[-1]))))
    assert len(places) > 5, "kills must meet the sweep at different places"
    for store in stores:
        told = [
            event
            for event in run_plan(planned(LONG), store, executor=executor())
            if not isinstance(event, Busy)
        ]
        assert all(isinstance(event, Progress) for event in told)
        assert table(LONG, store) == unbroken
    assert len({(event.number, event.record.level) for event in told}) == len(told)


def submitted(cluster):
    """Every element that was ever submitted, also those that left the queue."""
    return set(cluster.ask("squeue", "--noheader", "--array", "--states=all", "--format=%i").split())


def test_jobs_of_a_killed_driver_go_on_and_those_that_wait_are_cancelled(cluster, tmp_path):
    text = LONG.replace("replicates = 1", "replicates = 2").replace("level_cap = 37", "level_cap = 9")
    with driver(text, tmp_path) as process:
        until(lambda: len(cluster.jobs("RUNNING")) >= 4)
        process.kill()
    process.join()
    running, waiting = set(cluster.jobs("RUNNING")), set(cluster.jobs("PENDING"))
    assert (len(running), len(waiting)) == (4, 2), "at most six workers, on four CPUs"
    seen, before, over = [], submitted(cluster), threading.Event()

    def watch():
        while not over.wait(0.2):
            seen.append(set(cluster.jobs()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    events = list(run_plan(planned(text), tmp_path, executor=executor()))
    over.set()
    watcher.join()
    assert not [event for event in events if isinstance(event, Failed)]
    assert len(table(text, tmp_path)) == 8 * 10
    assert running <= submitted(cluster)
    assert not any(waiting & jobs for jobs in seen[10:])
    assert max(map(len, seen[10:]), default=0) <= 6
    assert len(submitted(cluster) - before) >= 2


def test_hundreds_of_chains_wait_for_few_places_without_flooding_the_queue(cluster, tmp_path):
    text = EMPTY.replace("width = [1, 2]", "width = 0.5").replace("[75, 100]", "50")
    plan = planned(text.replace("replicates = 1", "replicates = 300"))
    before, seen, over = submitted(cluster), [], threading.Event()

    def watch():
        while not over.wait(0.2):
            seen.append(len(cluster.jobs()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    events = list(run_plan(plan, tmp_path, executor=executor(at_once=4, chains_per_job=30)))
    over.set()
    watcher.join()
    assert sorted(event.number for event in events) == list(range(1, 301))
    arrays = {job.split("_")[0] for job in submitted(cluster) - before}
    assert (len(submitted(cluster) - before), len(arrays)) == (4, 2), "arrays of at most three"
    assert max(seen) <= 4
    assert not list((tmp_path / "slurm").iterdir()), "no logs are left of jobs that ended well"


def test_few_jobs_are_asked_for_where_each_takes_many_chains(cluster, tmp_path):
    before = submitted(cluster)
    text = EMPTY.replace("replicates = 1", "replicates = 3")
    events = list(run_plan(planned(text), tmp_path, executor=executor(at_once=None, chains_per_job=6)))
    assert len(events) == 12
    assert len(submitted(cluster) - before) == 2


def test_modules_in_the_current_folder_take_the_place_of_no_installed_one(cluster, tmp_path, monkeypatch):
    for name in ("rich", "numpy", "torch", "json", "submitit"):
        (tmp_path / f"{name}.py").write_text(
            "raise SystemExit('a module in the current folder was imported')"
        )
    monkeypatch.chdir(tmp_path)
    events = list(run_plan(planned(EMPTY), tmp_path / "store", executor=executor(at_once=1)))
    assert len(events) == 4
    assert not any(isinstance(own, Failed) for own in events)


def test_a_job_that_somebody_cancels_is_not_submitted_again(cluster, tmp_path):
    plan, before = planned(LONG.replace("[1, 2]", "2").replace("[75, 100]", "100")), submitted(cluster)
    events = run_plan(plan, tmp_path, executor=executor())
    assert isinstance(next(events), Progress)
    (job,) = submitted(cluster) - before
    cluster.ask("scancel", job)
    *_, last = events
    assert isinstance(last, Failed)
    assert last.error == f"job {job} was cancelled; the next run continues this chain"
    assert submitted(cluster) - before == {job}


FATAL = """
import os, signal
from torch import nn

class Fatal(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, images):
        if self.width == 3 and len(images) > 2:  # a trial before anything trains has two
            raise ValueError("no such width")
        if self.width == 4 and len(images) > 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return images

def small(depth, width, num_classes):
    return nn.Sequential(Fatal(width), nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, num_classes))
"""


def test_a_chain_that_kills_its_worker_every_time_fails_and_spares_those_beside_it(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "lethal_family.py").write_text(FATAL)
    text = EMPTY.replace('"digits_cnn"', '"lethal_family:small"').replace("[1, 2]", "[1, 2, 3, 4]")
    plan, before = planned(text.replace("[75, 100]", "50")), submitted(cluster)
    events = list(
        run_plan(
            plan, tmp_path / "store", executor=executor(chains_per_job=2, options={"partition": "single"})
        )
    )
    failed = {event.number: event.error for event in events if isinstance(event, Failed)}
    assert sorted(failed) == [3, 4]
    assert failed[3] == "ValueError: no such width"
    assert failed[4].startswith(
        "3 workers in a row died on this chain without a new level or checkpoint; the last"
    )
    assert " job " in failed[4]
    assert [own.state for own in chain_statuses(plan, tmp_path / "store")] == [
        "ended",
        "ended",
        "failed",
        "failed",
    ]
    jobs = submitted(cluster) - before
    assert len(jobs) >= 3
    assert not any("_" in job for job in jobs), "this partition takes no arrays, so there came single jobs"
    kept = [path.parent for path in (tmp_path / "store").glob("slurm/*/*/worker.pickle")]
    logs = [any(folder.glob("*_log.*")) for folder in kept]
    assert logs.count(True) == len(logs) >= 3, "logs of the dead are kept, and nothing of what was refused"


def test_a_node_that_does_not_see_the_store_is_named(cluster, tmp_path):
    hidden = tmp_path / "not-shared"
    hidden.mkdir()
    for node in NODES:
        cluster.kill(node)
        cluster.revive(node, first=f"mount -t tmpfs tmpfs {hidden}")
    try:
        with pytest.raises(PrunecastError, match=r"node[12] does not see the store .*keep the node out with"):
            list(run_plan(planned(LONG), hidden / "store", executor=executor()))
    finally:
        for node in NODES:
            cluster.kill(node)
            cluster.revive(node)
    assert not cluster.jobs()


def test_jobs_that_would_wait_for_ever_or_are_not_taken_are_explained(cluster, tmp_path):
    limited = executor(options={"partition": "brief"})
    with pytest.raises(
        PrunecastError, match=r"would wait in Slurm forever \(PartitionTimeLimit\); ask for less"
    ):
        list(run_plan(planned(LONG), tmp_path, executor=limited))
    with pytest.raises(PrunecastError, match=r"does not accept the jobs .*invalid partition specified: gone"):
        list(run_plan(planned(LONG), tmp_path, executor=executor(options={"partition": "gone"})))
    until(lambda: not cluster.jobs())


def test_the_command_stops_at_ctrl_c_and_takes_its_jobs_out_of_the_queue(cluster, tmp_path):
    (tmp_path / "long.toml").write_text(LONG.replace("level_cap = 37", "level_cap = 99"))
    command = [*PRUNECAST, "run", str(tmp_path / "long.toml")]
    command += ["--on", "slurm", "--partition", "main", "--at-once", "2", "--minutes", "5"]
    running = subprocess.Popen(
        [*command, "--store", str(tmp_path / "store")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until(lambda: any(own.state == "running" for own in chain_statuses(planned(LONG), tmp_path / "store")))
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    assert "run the same command to continue" in said
    until(lambda: not cluster.jobs())
    until(lambda: not cluster.workers())

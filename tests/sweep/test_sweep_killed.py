import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch
from small import MANY, drive_and_tell, parsed, table

from prunecast.sweep import rows, run_plan

KILLS = 30
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["prunecast.sweep"])


def processes_with_parents():
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            yield int(folder.name), int(fields[1])


def workers_of(driver):
    """The processes that a driver's fork server forked."""
    parents = dict(processes_with_parents())
    servers = [pid for pid, parent in parents.items() if parent == driver]
    return [pid for pid, parent in parents.items() if parent in servers]


def killed(process, victims):
    for pid in victims:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        if pid == process.pid:
            process.join()
    return len(victims)


def drive_and_kill(text, store, wanted, moments):
    """Run a driver, and kill it or its workers until it has ended; return the number of kills."""
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=drive_and_tell, args=(text, store, there))
    process.start()
    there.close()
    assert here.recv() == "begun"
    if moments.random() < 0.8:
        here.poll(60)
    kills = 0
    while kills < wanted:
        process.join(moments.uniform(0, 0.5))
        if not process.is_alive():
            assert process.exitcode == 0
            return kills
        workers = workers_of(process.pid)
        if workers and moments.random() < 0.6:
            kills += killed(process, [moments.choice(workers)])
        else:
            return kills + killed(process, [process.pid])
    process.kill()
    process.join()
    return kills


@pytest.mark.slow
def test_a_sweep_killed_again_and_again_ends_with_the_table_of_an_unbroken_one(tmp_path):
    torch.set_num_threads(1)
    plan = parsed(MANY)
    list(run_plan(plan, tmp_path / "unbroken"))
    unbroken = table(plan, tmp_path / "unbroken")
    assert (len(plan.chains), len(unbroken)) == (24, 408)
    moments = random.SystemRandom()
    kills, stores, levels = 0, [tmp_path / "killed-0"], set()
    while kills < KILLS:
        kills += drive_and_kill(MANY, stores[-1], KILLS - kills, moments)
        levels.add((len(stores), len(rows(plan, stores[-1]))))
        if len(rows(plan, stores[-1])) == len(unbroken):
            stores.append(tmp_path / f"killed-{len(stores)}")
    assert len(levels) > 3, "kills must meet the sweep at different places"
    for store in stores:
        assert not [event for event in run_plan(plan, store) if type(event).__name__ != "Progress"]
        assert table(plan, store) == unbroken


def test_workers_die_with_their_driver(tmp_path):
    here, there = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=drive_and_tell, args=(MANY, tmp_path, there))
    process.start()
    there.close()
    assert here.recv() == "begun"
    assert here.recv() == "Progress"
    workers = workers_of(process.pid)
    assert len(workers) == 2
    killed(process, [process.pid])
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        time.sleep(0.02)

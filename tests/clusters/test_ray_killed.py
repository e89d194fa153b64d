import multiprocessing
import os
import random
import signal
from functools import partial

import pytest
import rays
from small import MANY, parsed, table

from prunecast.cli.show import status
from prunecast.sweep import Progress, chain_statuses, drive, run_plan

rays.need_ray()

LONG = MANY.replace("depth = [3, 4, 5]", "depth = 3").replace("level_cap = 16", "level_cap = 14")
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["prunecast.clusters.ray"])


def drive_and_tell(text, store, address, environment, pipe):
    """A driver on the cluster's head; it reports events as they happen."""
    os.environ.update(environment)
    from prunecast.clusters.ray import RayBackend

    executor = partial(drive, backend=partial(RayBackend, address))
    for event in run_plan(parsed(text), store, executor=executor):
        level = event.record.level if isinstance(event, Progress) else None
        pipe.send((type(event).__name__, event.number, level))


def running(plan, store):
    """The processes that hold a chain."""
    return [own.holder.pid for own in chain_statuses(plan, store) if own.state == "running" and own.holder]


class Killer:
    """Kills workers, nodes and a driver in random order at random moments while a chain is running."""

    def __init__(self, nodes):
        self.nodes, self.moments = nodes, random.SystemRandom()
        self.victims = ["worker"] * 14 + ["node"] * 5 + ["driver"]
        self.moments.shuffle(self.victims)

    def strike(self, driver, workers):
        """Kill the next victim; a worker that ended by itself in between does not count."""
        if self.victims[-1] == "node":
            self.nodes.kill(self.nodes.others[0])
            self.nodes.add()
        else:
            pid = driver.pid if self.victims[-1] == "driver" else self.moments.choice(workers)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
        self.victims.pop()


def driven(store, nodes, killer):
    """Run a driver until it ends or dies; return how it ended and what it printed."""
    plan, (here, there) = parsed(LONG), PROCESSES.Pipe(duplex=False)
    driver = PROCESSES.Process(
        target=drive_and_tell, args=(LONG, store, nodes.address, dict(os.environ), there)
    )
    driver.start()
    there.close()
    while driver.is_alive():
        driver.join(killer.moments.uniform(0, 0.7))
        workers = running(plan, store)
        if workers and killer.victims and driver.is_alive():
            killer.strike(driver, workers)
    said = []
    while True:
        try:
            said.append(here.recv())
        except EOFError:
            return driver.exitcode, said


@pytest.mark.slow
def test_a_cluster_whose_workers_and_nodes_are_killed_gives_the_table_of_an_unbroken_run(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("PRUNECAST_TRIES", "100")
    plan = parsed(LONG)
    list(run_plan(plan, tmp_path / "unbroken"))
    unbroken = table(plan, tmp_path / "unbroken")
    with rays.two_nodes() as nodes:
        killer, stores = Killer(nodes), []
        while killer.victims:
            stores.append(tmp_path / f"killed-{len(stores)}")
            code, told = -signal.SIGKILL, []
            while code == -signal.SIGKILL:
                code, said = driven(stores[-1], nodes, killer)
                told += said
            assert code == 0
            assert {what for what, *_ in told} <= {"Progress", "Busy"}
            levels = [place for what, *place in told if what == "Progress"]
            assert all(levels.count(place) == 1 for place in levels)
            assert table(plan, stores[-1]) == unbroken
    told = [status("long", chain_statuses(plan, store)) for store in stores]
    assert any("restarted after a worker was killed or stopped: chain " in text for text in told)

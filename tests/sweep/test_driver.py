"""The driver with workers that are cancelled, die, or fail with their whole fleet, without a cluster."""

import contextlib
import dataclasses
import time

import pytest
from small import BRIEF, parsed

from prunecast.errors import PrunecastError
from prunecast.fleet.scheduler import Scheduler
from prunecast.pruning import chain_folder
from prunecast.sweep import (
    Busy,
    Ended,
    Failed,
    Progress,
    chain_statuses,
    drive,
    driver,
    run_plan,
    run_worker,
    work,
)
from prunecast.sweep.backend import Backend
from prunecast.sweep.events import failure_of
from prunecast.sweep.run import unfinished
from prunecast.sweep.worker import FleetError, WorkerSpec, pull_chains

PLAN = parsed(BRIEF.replace("level_cap = 2", "level_cap = 0"))
CANCELLED = "job A was cancelled"
GIVEN_UP = f"{CANCELLED}; the next run continues this chain"
PATIENCE = 30
"""How often the driver may ask for workers that have ended before it counts as hung."""


class Scripted(Backend):
    """Workers A, B, C, ... that do nothing; a script says how they end."""

    def __init__(self, script, slots=2):
        self.script, self.slots, self.started, self.running, self.asked = iter(script), slots, [], [], 0

    def room(self, spec):
        return self.slots - len(self.running)

    def start(self, spec, count):
        names = ["ABCDEF"[len(self.started) + number] for number in range(count)]
        self.started += names
        self.running += names
        return names

    def ended(self, seconds):
        time.sleep(0.1)
        self.asked += 1
        assert self.asked < PATIENCE, "the driver hangs"
        for ended in next(self.script, ()):
            self.running.remove(ended.worker)
            yield ended

    def stop(self):
        pass


def jobs_for(store, count):
    return unfinished(list(enumerate(PLAN.chains, 1))[:count], store)


def driven(jobs, store, script, **options):
    backend = Scripted(script, **options)
    return backend, list(drive(jobs, store, backend=lambda: backend))


def cancelled():
    return Ended(worker="A", died=CANCELLED, cancelled=True)


def finished(job, store, *ended):
    """These workers end when a chain has ended."""
    list(work([job], store))
    yield from ended


def held(job, store):
    return chain_folder(store, job.chain.spec).locked()


def letting_go(lock):
    """No worker ends while another run releases its chain."""
    lock.close()
    yield from ()


def failures(events):
    return {event.number: event.error for event in events if isinstance(event, Failed)}


def test_a_chain_whose_worker_was_cancelled_fails_when_the_others_have_ended(tmp_path):
    jobs = jobs_for(tmp_path, 2)
    script = [[cancelled()], (), finished(jobs[1], tmp_path, Ended(worker="B"))]
    backend, events = driven(jobs, tmp_path, script)
    assert failures(events) == {1: GIVEN_UP}
    assert [event.number for event in events if isinstance(event, Progress)] == [2]
    assert backend.started == ["A", "B"]


@pytest.mark.parametrize("count", [2, 3])
def test_chains_that_another_run_lets_go_of_after_a_cancellation_are_not_taken(tmp_path, count):
    jobs = jobs_for(tmp_path, count)
    with contextlib.ExitStack() as lock:
        for job in jobs[1:]:
            lock.enter_context(held(job, tmp_path))
        backend, events = driven(jobs, tmp_path, [[cancelled()], (), (), letting_go(lock)])
    assert failures(events) == dict.fromkeys(range(1, count + 1), GIVEN_UP)
    assert backend.started == ["A"]


def test_a_worker_that_dies_after_another_was_cancelled_is_replaced(tmp_path):
    jobs = jobs_for(tmp_path, 3)
    script = [
        [cancelled(), Ended(worker="B", died="was ended by SIGKILL")],
        *[()] * 5,
        finished(jobs[0], tmp_path),
        finished(jobs[1], tmp_path),
        finished(jobs[2], tmp_path, Ended(worker="C"), Ended(worker="D")),
    ]
    backend, events = driven(jobs, tmp_path, script)
    assert failures(events) == {}
    assert backend.started == ["A", "B", "C", "D"], "three chains are left, and one worker was cancelled"


def test_workers_that_all_die_before_they_take_a_chain_end_the_run(tmp_path, monkeypatch):
    """They were replaced without end."""
    monkeypatch.setattr(driver, "MOST_PAUSE", driver.PAUSE)
    script = [[Ended(worker=name, died="ended with exit code 1")] for name in "ABCDE"]
    waiting = [own for ended in script for own in (ended, (), (), ())]
    with pytest.raises(
        PrunecastError, match="Workers die before they take a chain: the last one ended with exit code 1"
    ):
        driven(jobs_for(tmp_path, 2), tmp_path, waiting, slots=1)


def test_a_chain_that_has_ended_does_not_fail_because_its_worker_is_cancelled_then(tmp_path):
    jobs = jobs_for(tmp_path, 1)
    _, events = driven(jobs, tmp_path, [finished(jobs[0], tmp_path, cancelled())])
    assert [type(event) for event in events] == [Progress]
    assert failure_of(tmp_path, jobs[0].chain.spec) is None


def test_a_chain_that_was_busy_and_then_failed_is_not_tried_again(tmp_path):
    calls = []

    def executor(jobs, store):
        calls.append([job.number for job in jobs])
        for job in jobs:
            yield Busy(number=job.number, chain=job.chain)
        if len(calls) > 1:
            yield from work(jobs, store)
            return
        yield Failed(number=1, chain=jobs[0].chain, error=GIVEN_UP, traceback="")

    events = list(run_plan(PLAN, tmp_path, executor=executor))
    assert calls == [[1, 2, 3, 4], [2, 3, 4]]
    assert list(failures(events)) == [1]
    assert sorted(event.number for event in events if isinstance(event, Progress)) == [2, 3, 4]


ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"


def broken(*_):
    raise RuntimeError(ILLEGAL.removeprefix("RuntimeError: "))


def failed_numbers(jobs, store):
    return [job.number for job in jobs if failure_of(store, job.chain.spec)]


def fleet_of(jobs, store, most_width):
    return WorkerSpec(jobs=tuple(jobs), store=store, packed=True, most_width=most_width)


def test_only_chains_that_a_broken_fleet_had_taken_fail(tmp_path, monkeypatch):
    jobs = jobs_for(tmp_path, 4)
    spec = fleet_of(jobs, tmp_path, most_width=0.5)
    with held(jobs[2], tmp_path), monkeypatch.context() as patched:
        patched.setattr(Scheduler, "_ended_level", broken)
        pull_chains(spec)
    (number,) = failed_numbers(jobs, tmp_path)
    assert number != 3, "another worker has it"
    assert failure_of(tmp_path, jobs[number - 1].chain.spec).error == ILLEGAL
    pull_chains(spec)
    states = [own.state for own in chain_statuses(PLAN, tmp_path)]
    assert states == ["failed" if own == number else "ended" for own in range(1, 5)]


def test_a_fleet_that_breaks_before_it_takes_anything_fails_all_that_nobody_holds(tmp_path, monkeypatch):
    jobs = jobs_for(tmp_path, 4)
    list(work(jobs[:1], tmp_path))
    monkeypatch.setattr(Scheduler, "run", broken)
    with held(jobs[2], tmp_path):
        pull_chains(fleet_of(jobs, tmp_path, most_width=None))
    assert failed_numbers(jobs, tmp_path) == [2, 4]


class Here(Scripted):
    """Runs fleets in this process, one at a time."""

    def start(self, spec, count):
        run_worker(dataclasses.replace(spec, packed=True, most_width=0.5))
        return super().start(spec, 1)

    def ended(self, seconds):
        over, self.running = self.running, []
        return [Ended(worker=name) for name in over]


def test_a_sweep_whose_fleets_all_break_ends(tmp_path, monkeypatch):
    monkeypatch.setattr(Scheduler, "_ended_level", broken)
    jobs, backend = jobs_for(tmp_path, 4), Here([], slots=1)
    events = list(drive(jobs, tmp_path, backend=lambda: backend))
    assert failures(events) == dict.fromkeys(range(1, 5), ILLEGAL)
    assert len(events) == len(backend.started) == 4
    with pytest.raises(FleetError, match="a fleet failed with RuntimeError: CUDA error"):
        list(work(jobs_for(tmp_path, 1), tmp_path, packed=True))

"""A sweep on a Slurm cluster: shares of chains as elements of job arrays, watched through the store.

The driver submits, looks and submits again; it carries no results. Whatever dies (a worker, a node, the driver
itself), the store tells how far every chain has come, and its lock lets one worker at a time go on with it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunecast.clusters.resources import Resources, devices_of, needs
from prunecast.clusters.seen import marked
from prunecast.clusters.shares import shares
from prunecast.clusters.slurm_arrays import driver_folder
from prunecast.clusters.slurm_commands import Row, cancel, check_options, check_tools, story
from prunecast.clusters.slurm_flights import Chains, Flight
from prunecast.clusters.slurm_queue import Place, Queue
from prunecast.clusters.slurm_setbacks import Setbacks
from prunecast.clusters.slurm_worker import began, done
from prunecast.errors import PrunecastError
from prunecast.sweep.events import Busy, Failed, Job, Outcome, Share
from prunecast.sweep.failures import failure_of
from prunecast.sweep.work import one_by_one, torch_device

HOPELESS = ("PartitionTimeLimit", "PartitionNodeLimit", "BadConstraints", "InvalidAccount", "InvalidQOS")
"""Why Slurm would let a job wait for ever."""
IN_QUEUE = ("PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "REQUEUED")
LAUNCH_FAILED = "launch"
"""Part of the reason for which Slurm holds a job that a node could not start."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How often a driver looks, in seconds."""

    look: float = 1.0
    """Between two looks at the store."""
    ask: float = 5.0
    """Between two questions to Slurm, as long as something changes."""
    most: float = 60.0
    """Between two questions when nothing has changed for long."""


def on_slurm(
    jobs: Sequence[Job],
    store: Path,
    *,
    resources: Resources | None = None,
    options: Mapping[str, str] | None = None,
    chains_per_job: int = 1,
    pace: Pace | None = None,
) -> Iterator[Outcome]:
    """Run jobs on the nodes of a Slurm cluster and yield levels as they appear in the store.

    `options` go to sbatch as they are (partition, account, gres, ...). A job on CPUs takes `chains_per_job`
    chains, one after the other; a job with a GPU takes a fleet. When the iterator is closed, what it has in
    the queue is cancelled; when the driver is killed it stays there, and the next driver takes it over.
    """
    resources, store = resources or Resources(), store.absolute()
    check_tools()
    check_options(options or {})
    with marked(store) as mark, driver_folder(store) as driver:
        chains = Chains(jobs, store)
        queue = Queue(jobs, chains, Place(store=store, mark=mark, driver=driver), resources, options or {})
        try:
            yield from _Sweep(store, chains, queue, pace or Pace()).run(resources, chains_per_job)
        finally:
            queue.close()


def grouped(found: Sequence[Share], resources: Resources, size: int) -> list[Share]:
    """Put single chains that need the same and no GPU together, so many to a job and long ones apart."""
    groups: dict[Resources, list[Share]] = {}
    whole: list[Share] = []
    for share in found:
        need = needs(share[0].chain, resources)
        alone = need.gpus or devices_of(share[0].chain) > 1
        (whole if alone else groups.setdefault(need, [])).append(share)
    for alike in groups.values():
        count = -(-len(alike) // size)
        whole += [tuple(job for share in alike[first::count] for job in share) for first in range(count)]
    return whole


class _Sweep:
    """The driver at work: submit what there is room for, tell what the store says, look after the dead."""

    def __init__(self, store: Path, chains: Chains, queue: Queue, pace: Pace) -> None:
        self._store, self._chains, self._queue, self._pace = store, chains, queue, pace
        self._setbacks = Setbacks(store)

    def run(self, resources: Resources, chains_per_job: int) -> Iterator[Outcome]:
        """Run every chain to its end; ask Slurm less and less often while nothing changes in its queue."""
        yield from self._begin(resources, chains_per_job)
        wait = self._pace.ask
        due = time.monotonic() + wait
        while self._chains.open:
            before = set(self._queue.flights)
            self._queue.submit()
            yield from self._news()
            if time.monotonic() >= due:
                yield from self._ask()
                changed = set(self._queue.flights) != before
                wait = self._pace.ask if changed else min(self._pace.most, 2 * wait)
                due = time.monotonic() + wait
            if self._chains.open:
                time.sleep(self._pace.look)
        self._queue.linger(self._pace.look)

    def _begin(self, resources: Resources, chains_per_job: int) -> Iterator[Outcome]:
        """Take over what is in the queue already, pass over what others hold, cut the rest into shares."""
        self._queue.begin()
        for job in self._chains.ended():  # a kill may have left something to tidy up
            self._chains.close(job)
            yield from one_by_one([job], self._store, torch_device("cpu"))
        flying = {job.number for flight in self._queue.flights.values() for job in flight.share}
        rest = [job for job in self._chains.open if job.number not in flying]
        held = self._chains.held(rest)
        for job in held:
            self._chains.close(job)
            yield Busy(number=job.number, chain=job.chain)
        if held and not self._chains.open:
            time.sleep(self._pace.ask)  # the sweep comes back to them again and again
        found = shares(self._chains.left(rest), resources, workers=self._queue.limit or 1)
        self._queue.waiting.extend(grouped(found, resources, chains_per_job))

    def _news(self) -> Iterator[Outcome]:
        for flight in list(self._queue.flights.values()):
            if not flight.waits:
                yield from self._chains.news(flight.share)

    def _ask(self) -> Iterator[Outcome]:
        """Compare what is thought to be in the queue with what is."""
        rows = self._queue.rows()
        if rows is None:
            return
        for key, flight in list(self._queue.flights.items()):
            if key in rows:
                self._still(flight, rows[key])
            elif self._has_left(flight):
                del self._queue.flights[key]
                yield from self._gone(flight)
        self._queue.widen()

    def _still(self, flight: Flight, row: Row) -> None:
        """Look at a job that is in the queue."""
        flight.waits, flight.job = row.state == "PENDING", row.job
        if flight.waits and row.reason in HOPELESS:
            raise PrunecastError(
                f"Slurm would let job {row.job} wait for ever ({row.reason}); "
                "ask for less, or for another partition or account with --sbatch."
            )
        again = row.restarts > flight.restarts
        flight.restarts = row.restarts
        in_vain = again and self._setbacks.queued_again(flight, self._chains)
        if in_vain or (flight.waits and LAUNCH_FAILED in row.reason.lower()):
            flight.given_up = True
            cancel([row.job])
        if not flight.waits and not flight.heard and (words := began(flight.array.folder, flight.index)):
            flight.heard = True
            self._setbacks.heard(words, mine=self._queue.mine(flight.array))

    def _has_left(self, flight: Flight) -> bool:
        """Make sure about a job that did not end by itself: what squeue says may be some seconds old."""
        words = done(flight.array.folder, flight.index)
        if words is None or words.stopped:
            flight.story = story(flight.job)
        return flight.story.get("JobState") not in IN_QUEUE

    def _gone(self, flight: Flight) -> Iterator[Outcome]:
        """Look at a job that has left the queue: what is not at its end goes on with another."""
        yield from self._chains.news(flight.share, fresh=True)
        words = done(flight.array.folder, flight.index)
        if words and words.refused:
            raise PrunecastError(words.refused)
        for job in self._chains.left(flight.share):
            if words and job.chain.spec.digest in words.failed:
                yield self._failed(job)
            elif (words and job.chain.spec.digest in words.busy) or not flight.array.own:
                self._chains.close(job)
                yield Busy(number=job.number, chain=job.chain)
        left = self._chains.left(flight.share)
        if left:
            again, lost = self._setbacks.died(flight, left)
            self._queue.waiting.extendleft(reversed(again))
            yield from map(self._failed, lost)
        self._queue.clean(flight.array)

    def _failed(self, job: Job) -> Failed:
        self._chains.close(job)
        failure = failure_of(self._store, job.chain.spec)
        error, traceback = (failure.error, failure.traceback) if failure else ("nobody wrote down why", "")
        return Failed(number=job.number, chain=job.chain, error=error, traceback=traceback)

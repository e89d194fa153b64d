"""The scheduler of a fleet: chains are opened, packed, trained on streams and closed, all beside one another."""

import logging
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import torch

from prunecast.errors import StoreError
from prunecast.fleet.door import Door
from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.members import Job, Member, group_of
from prunecast.fleet.open_close import Opener, close
from prunecast.fleet.options import BUDGET, FULL_PACKS, ON_CPU, Options
from prunecast.fleet.outcomes import Closing, Outcome
from prunecast.fleet.ranks import Team, rank_of, team_of, work_of_level
from prunecast.fleet.remaining import Remaining
from prunecast.fleet.trainer import Trainer
from prunecast.fleet.under_way import Training, UnderWay, well_done
from prunecast.fleet.waiting import Waiting
from prunecast.fleet.yard import Yard

LOG = logging.getLogger(__name__)


class Scheduler:
    """The main thread decides what is done next; one thread opens chains, one a stream trains, others close levels.

    Threads only hand `Outcome`s back, so what is kept here belongs to the main thread alone.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[int, Job]],
        store: Path,
        device: torch.device,
        options: Options,
        opener: Opener,
    ) -> None:
        """Nothing is opened yet."""
        self._device, self._options = device, options
        self._opening = _pool("open", 1, options)
        self._ahead = _pool("draws", options.workers, options)
        self._streams = _pool("stream", options.workers, options)
        self._closers = _pool("close", options.workers + 2, options)
        self._remaining = Remaining(jobs)
        self._unpackable: set[int] = set()
        """Open chains that train alone."""
        self._yard = Yard([job.spec for _, job in jobs], options, self._at_once())
        self._door = Door(store, self._yard, opener)
        self._trainer = Trainer(self._yard, self._ahead, options)
        self._jobs = deque(sorted(jobs, key=lambda numbered: _opening_order(numbered[1])))
        self._under_way = UnderWay()
        self._waiting = Waiting(self._yard, self._under_way)
        self._locks: dict[int, ExitStack] = {}
        """Of all open chains."""
        self.left: list[int] = []
        """Jobs that the plain loop must do after the fleet: data that streams, dropout, failures of the fleet."""
        self.told: Counter[int] = Counter()
        """Levels of each job that were told."""

    def run(self) -> Iterator[Finished | Failed]:
        """Run all chains but those in `left`."""
        began = time.perf_counter()
        try:
            while True:
                self._open_next()
                self._dispatch()
                self._yard.beside.settle(not self._under_way.opening)
                if not self._under_way:
                    return
                outcomes = self._under_way.done()
                for outcome in outcomes:  # all of them before anything is told: who listens may go away
                    self._take(outcome)
                for outcome in outcomes:
                    yield from outcome.events
        finally:
            self._end()
            meter = self._yard.meter
            LOG.info(
                "The fleet ran for %.1f s; streams waited %.1f s for packs, %.1f s of it while nothing trained; "
                "%.1f s were compiled beside.",
                *(time.perf_counter() - began, meter.spent["waiting"], meter.idle, meter.spent["compiling"]),
            )

    def _end(self) -> None:
        """Let go of everything, but store what is trained."""
        self._trainer.stop()
        self._yard.beside.stop()
        for pool in (self._opening, self._streams):
            pool.shutdown(wait=True, cancel_futures=True)
        for outcome in well_done(self._under_way.training):
            for trained in outcome.trained:
                self._closers.submit(_closed, trained)
        self._closers.shutdown(wait=True)
        self._ahead.shutdown(wait=True, cancel_futures=True)
        opened = [own.lock for outcome in well_done(self._under_way.opening) for own in outcome.opened]
        for lock in (*self._locks.values(), *opened):
            lock.close()
        self._trainer.clear()
        self._yard.clear()

    def _open_next(self) -> None:
        """Let the next chain be opened, one at a time, while others train."""
        if self._jobs and self._room() and not self._under_way.opening:
            number, job = self._jobs.popleft()
            future = self._opening.submit(self._door.open, number, job)
            self._under_way.opening[future] = team_of(job.spec)

    def _room(self) -> bool:
        return len(self._locks) < self._options.most_chains

    def _coming(self) -> list[Team]:
        """The teams of the chain that is being opened and of the one that comes after it."""
        following = [team_of(self._jobs[0][1].spec)] if self._jobs and self._room() else []
        return [*self._under_way.opening.values(), *following]

    def _dispatch(self) -> None:
        """Give work to idle streams, longest first."""
        under_way = self._under_way
        while len(under_way.training) < self._options.workers and under_way.full_packs < FULL_PACKS:
            members = self._waiting.next_pack(self._at_once(), self._coming())
            if members is not None:
                self._train_pack(members)
            elif (member := self._waiting.next_alone()) is not None:
                future = self._streams.submit(self._trainer.alone, member)
                under_way.training[future] = Training(rank=rank_of([member]), share=0.0)
            else:
                return

    def _train_pack(self, members: list[Member]) -> None:
        kind = group_of(members[0]).kind
        shape = self._yard.shape(kind, members)
        share = sum(shape) / max(BUDGET, self._yard.budget(kind, members))
        future = self._streams.submit(self._trainer.pack, members, shape)
        self._under_way.training[future] = Training(rank=rank_of(members), share=share)

    def _at_once(self) -> int:
        """Packs in training at the same time; chains that train alone are small and take all streams."""
        most = self._options.workers
        if self._unpackable:
            return most
        usual = BUDGET if self._device.type == "cuda" else ON_CPU
        return self._remaining.packs_at_once(self._options.budget or usual, most)

    def _take(self, outcome: Outcome) -> None:
        """Pass on what a thread handed back."""
        for opened in outcome.opened:
            number = opened.member.number
            self._locks[number] = opened.lock
            if not opened.packable:
                self._unpackable.add(number)
            self._put(opened.member, begun=False)
        for closing in outcome.trained:
            future = self._closers.submit(_closed, closing)
            self._under_way.closing[future] = rank_of([closing.member])
        for member in outcome.following:
            self._put(member, begun=True)
        self._waiting.put_packs(outcome.apart)
        for number in outcome.left:
            self._release(number)
            self.left.append(number)
        for event in outcome.events:
            self.told[event.number] += isinstance(event, Finished)
            self._remaining.finish(event.number)
            if isinstance(event, Failed) or event.ended:
                self._release(event.number)

    def _put(self, member: Member, *, begun: bool) -> None:
        """Make a level wait for its turn."""
        if member.number in self._unpackable:
            self._waiting.put_alone(member, first=begun)
        else:
            self._waiting.put(member)

    def _release(self, number: int) -> None:
        """Let go of a chain, if it was held at all."""
        self._remaining.end(number)
        self._unpackable.discard(number)
        self._trainer.forget(number)
        if number in self._locks:
            self._locks.pop(number).close()


def _pool(name: str, threads: int, options: Options) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, name, initializer=torch.set_num_threads, initargs=(options.threads,))


def _closed(closing: Closing) -> Outcome:
    """Store a level and open the next: the work of a closing thread."""
    try:
        finished, following = close(closing.member, closing.end, closing.rewind)
    except StoreError:
        raise
    except Exception as problem:
        return Outcome(events=[Failed(number=closing.member.number, problem=problem)])
    return Outcome(events=[finished], following=[following] if following else [])


def _opening_order(job: Job) -> tuple[int, str]:
    """Teams with the most work first, one team after the other."""
    return -work_of_level(job.spec), repr(team_of(job.spec))

"""The scheduler: forms packs of ready levels and gives them to streams; closes levels beside the training."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import torch
from torch import Tensor

from prunecast.errors import StoreError
from prunecast.fleet.alone import Lone, lone
from prunecast.fleet.door import Door
from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.members import Group, Job, Member, group_of
from prunecast.fleet.open_close import Opener, close
from prunecast.fleet.options import BUDGET, FULL_PACKS, ON_CPU, Options
from prunecast.fleet.outcomes import Closing, Outcome, Training, Work, apart, company, rank, team
from prunecast.fleet.remaining import Remaining, work_of_level
from prunecast.fleet.shapes import Shape, deal, places, split
from prunecast.fleet.train import Ends, Spoilt, Stopped, diverged, train_level
from prunecast.fleet.yard import Yard
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)


class Scheduler:
    """The main thread forms packs, one thread opens chains, one per stream trains, others close levels."""

    def __init__(
        self,
        jobs: Sequence[tuple[int, Job]],
        store: Path,
        device: torch.device,
        options: Options,
        opener: Opener,
    ) -> None:
        """Nothing is opened yet."""
        self._jobs = deque(sorted(jobs, key=lambda numbered: _opening_order(numbered[1])))
        self._device, self._options = device, options
        self._yard = Yard([job.spec for _, job in jobs], options)
        self._remaining = Remaining(jobs)
        self._door = Door(store, self._yard, opener)
        self._locks: dict[int, ExitStack] = {}
        self._ready: dict[Group, list[Member]] = {}
        self._formed: deque[list[Member]] = deque()
        self._alone: deque[Member] = deque()
        self._lones: dict[int, Lone | None] = {}
        self._work = Work()
        self._stop = threading.Event()
        self.left: list[int] = []
        """Jobs that the plain loop must do after the fleet: data that streams, dropout, failures of the fleet."""
        self.told: Counter[int] = Counter()
        """Levels of each job that were told."""
        self._opening = self._pool("open", 1)
        self._ahead = self._pool("draws", options.workers)
        self._streams = self._pool("stream", options.workers)
        self._closers = self._pool("close", options.workers + 2)

    def _pool(self, name: str, threads: int) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(
            threads, name, initializer=lambda: torch.set_num_threads(self._options.threads)
        )

    def run(self) -> Iterator[Finished | Failed]:
        """Run all chains but those in `left`."""
        began = time.perf_counter()
        try:
            while True:
                self._open_next()
                self._dispatch()
                self._yard.beside.settle(not self._work.opening)
                if not self._work:
                    return
                outcomes = self._work.done()
                for outcome in outcomes:
                    self._take(outcome)
                for outcome in outcomes:
                    yield from outcome.events
        finally:
            self._end()
            seconds = time.perf_counter() - began
            LOG.info(
                "The fleet ran for %.1f s; streams waited %.1f s for packs, %.1f s of it while nothing trained; "
                "%.1f s were compiled beside.",
                *(seconds, self._yard.building, self._yard.meter.idle, self._yard.compiling),
            )

    def _end(self) -> None:
        """Let go of everything, but store what is trained."""
        self._stop.set()
        self._yard.beside.stop()
        for pool in (self._opening, self._streams):
            pool.shutdown(wait=True, cancel_futures=True)
        for outcome in _results(self._work.training):
            for trained in outcome.trained:
                self._closers.submit(self._close, trained)
        self._closers.shutdown(wait=True)
        self._ahead.shutdown(wait=True, cancel_futures=True)
        opened = [own.lock for outcome in _results(self._work.opening) for own in outcome.opened]
        for lock in (*self._locks.values(), *opened):
            lock.close()
        self._lones.clear()
        self._yard.clear()

    def _open_next(self) -> None:
        """Let the next chain be opened, one at a time, while others train."""
        if self._jobs and self._room() and not self._work.opening:
            number, job = self._jobs.popleft()
            self._work.opening[self._opening.submit(self._door.open, number, job)] = job.spec

    def _room(self) -> bool:
        return len(self._locks) < self._options.most_chains

    def _put(self, member: Member) -> None:
        """Make a level wait for its turn; a lone chain that was begun goes on first."""
        if member.number not in self._lones:
            self._ready.setdefault(group_of(member), []).append(member)
        elif self._lones[member.number]:
            self._alone.appendleft(member)
        else:
            self._alone.append(member)

    def _dispatch(self) -> None:
        """Give work to idle streams, longest first."""
        while len(self._work.training) < self._options.workers and self._work.width < FULL_PACKS:
            members = self._next()
            if members is not None:
                kind = group_of(members[0]).kind
                shape = self._yard.shape(kind, members)
                future = self._streams.submit(self._level, members, shape)
                share = sum(shape) / max(BUDGET, self._yard.budget(kind, members))
                self._work.training[future] = Training(rank=rank(members), share=share)
            elif self._alone:
                member = self._alone.popleft()
                future = self._streams.submit(self._lone_level, member)
                self._work.training[future] = Training(rank=rank([member]), share=0.0)
            else:
                return

    def _at_once(self) -> int:
        """Packs in training at the same time; chains that train alone are small and take all streams."""
        most = self._options.workers
        if self._lones:
            return most
        usual = BUDGET if self._device.type == "cuda" else ON_CPU
        return self._remaining.packs_at_once(self._options.budget or usual, most)

    def _next(self) -> list[Member] | None:
        at_once = self._at_once()
        if self._formed:
            room = self._work.leaves_room(rank(self._formed[0]), at_once)
            return self._formed.popleft() if room else None
        ranks = {group: rank(members) for group, members in self._ready.items()}
        for group in sorted(ranks, key=lambda own: ranks[own].work, reverse=True):
            members = self._ready[group]
            if self._more_to_come(members[0].chain.spec) or not self._work.leaves_room(ranks[group], at_once):
                continue
            budget = self._yard.budget(group.kind, members)
            if sum(member.width for member in members) < self._enough(group, budget):
                continue
            del self._ready[group]
            self._formed.extend(deal(members, budget))
            return self._formed.popleft()
        return None

    def _more_to_come(self, spec: ChainSpec) -> bool:
        """Whether chains of the same team are about to be opened; they come one after the other."""
        coming = [
            *self._work.opening.values(),
            *([self._jobs[0][1].spec] if self._jobs and self._room() else []),
        ]
        return any(company(other) == company(spec) for other in coming)

    def _enough(self, group: Group, budget: float) -> float:
        """The width from which a group need not wait for others of its team: one full pack beats two."""
        if any(team(group) == own.team for own in self._work.closing.values()):
            return budget
        training = (own.rank.team for own in self._work.training.values())
        return budget / 2 if team(group) in training else 0.0

    def _level(self, members: list[Member], shape: Shape) -> Outcome:
        """One level of a pack: the work of a stream's thread."""
        group, runner = group_of(members[0]), None
        try:
            if self._stop.is_set():
                raise Stopped
            with (
                self._yard.runner(group.kind, shape, members[0].chain) as runner,
                self._yard.meter.doing("training"),
            ):
                end = train_level(
                    runner,
                    members,
                    places(shape, members),
                    self._ahead,
                    self._stop,
                    checkpoint_seconds=self._options.checkpoint_seconds,
                )
        except Stopped:
            return Outcome()
        except StoreError:
            raise
        except torch.OutOfMemoryError as failure:
            self._yard.shrink(group.kind, shape)
            return apart(members, failure)
        except Exception as failure:
            if self._yard.give_up(group.kind, shape, runner, failure):
                return Outcome(apart=[members])
            return apart(members, failure)
        if isinstance(end, Spoilt):
            if len(members) > 1:
                return Outcome(apart=split(members, end.suspects))
            end = Ends(trained=[diverged(end, members[0], self._device)], rewinds=None)
        rewinds: Sequence[Mapping[str, Tensor] | None] = end.rewinds or [None for _ in members]
        own = zip(members, end.trained, rewinds, strict=True)
        return Outcome(trained=[Closing(member=who, end=last, rewind=point) for who, last, point in own])

    def _lone_level(self, member: Member) -> Outcome:
        """One level of a chain that cannot be packed; what fails here is tried once more with all to itself."""
        try:
            if self._stop.is_set():
                return Outcome()
            found = self._lones[member.number] or lone(member.chain)
            self._lones[member.number] = found
            with self._yard.meter.doing("training"):
                end = found.train(member.level, self._stop)
            return Outcome(trained=[Closing(member=member, end=end)])
        except Stopped:
            return Outcome()
        except StoreError:
            raise
        except Exception as failure:
            return apart([member], failure)

    def _close(self, closing: Closing) -> Outcome:
        """Store a level and open the next: the work of a closing thread."""
        try:
            finished, following = close(closing.member, closing.end, closing.rewind)
        except StoreError:
            raise
        except Exception as problem:
            return Outcome(events=[Failed(number=closing.member.number, problem=problem)])
        return Outcome(events=[finished], following=[following] if following else [])

    def _take(self, outcome: Outcome) -> None:
        """Pass on what a thread handed back, all of it before anything is told: who listens may go away."""
        for opened in outcome.opened:
            number = opened.member.number
            self._locks[number] = opened.lock
            if not opened.packable:
                self._lones[number] = None
            self._put(opened.member)
        for closing in outcome.trained:
            future = self._closers.submit(self._close, closing)
            self._work.closing[future] = rank([closing.member])
        for member in outcome.following:
            self._put(member)
        self._formed.extend(outcome.apart)
        for number in outcome.left:
            self._release(number)
            self.left.append(number)
        for event in outcome.events:
            self.told[event.number] += isinstance(event, Finished)
            self._remaining.finish(event.number)
            if isinstance(event, Failed) or event.ended:
                self._release(event.number)

    def _release(self, number: int) -> None:
        """Let go of a chain, if it was held at all."""
        self._remaining.end(number)
        self._lones.pop(number, None)
        if number in self._locks:
            self._locks.pop(number).close()


def _results(futures: Iterable[Future[Outcome]]) -> Iterator[Outcome]:
    """What was done well."""
    for future in futures:
        if not future.cancelled() and future.exception() is None:
            yield future.result()


def _opening_order(job: Job) -> tuple[int, str]:
    """Teams with the most work first, one team after the other."""
    return -work_of_level(job.spec), repr(company(job.spec))

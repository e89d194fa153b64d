"""The fleet: chains packed anew at every level, packs side by side on their own streams."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch

from prunecast.data import Dataset
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Group, Job, Member, group_of, kind_of, levels_left
from prunecast.fleet.runner import HOST
from prunecast.fleet.shapes import Shape, deal, places
from prunecast.fleet.train import Ends, Spoilt, Stopped, diverged, train_level
from prunecast.fleet.yard import Options, Yard
from prunecast.pruning import (
    Chain,
    Record,
    Trained,
    chain_folder,
    close_level,
    open_chain,
    open_level,
    run_chain,
    why_ended,
    within,
)
from prunecast.pruning.packed import write_packed
from prunecast.spec import ChainSpec
from prunecast.training.precision import settings

LOG = logging.getLogger(__name__)
Opener = Callable[[ChainSpec, Path, Dataset], Chain]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished level of a job."""

    number: int
    record: Record
    ended: str
    """Why the chain ended with this level; empty while it goes on."""


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What became of a pack: levels that are stored and members to go on with, or members to train apart."""

    finished: list[Finished]
    following: list[Member]
    apart: list[list[Member]]


def run_fleet(
    jobs: Sequence[Job],
    store: Path,
    *,
    device: torch.device,
    options: Options | None = None,
    opener: Opener = open_chain,
) -> Iterator[Finished]:
    """Run every chain to its end and yield each level as it is finished, stored ones at once.

    The store sees finished levels only. Chains that cannot be packed are trained alone afterwards.
    """
    options = options or Options()
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    for precision in sorted({job.spec.recipe.precision for job in jobs}):
        own = [(number, job) for number, job in enumerate(jobs) if job.spec.recipe.precision == precision]
        fleet = _Fleet(own, store, device, options, opener)
        with settings(precision, device, max((job.spec.threads for _, job in own), default=1)):
            yield from fleet.run()
        for number in fleet.alone:
            yield from _alone(number, jobs[number], store)


def _alone(number: int, job: Job, store: Path) -> Iterator[Finished]:
    records: list[Record] = []
    chain = run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=job.keep_weights)
    for record in chain:
        records.append(record)
        yield Finished(number=number, record=record, ended=why_ended(records, job.rules))


class _Fleet:
    """The scheduler: main thread forms packs, one thread per stream trains them and finishes their levels."""

    def __init__(
        self,
        jobs: Sequence[tuple[int, Job]],
        store: Path,
        device: torch.device,
        options: Options,
        opener: Opener,
    ) -> None:
        self._jobs, self._store, self._device, self._opener = deque(jobs), store, device, opener
        self._options = options
        self._yard = Yard([job.spec for _, job in jobs], options)
        self._locks: dict[int, ExitStack] = {}
        self._ready: dict[Group, list[Member]] = {}
        self._formed: deque[list[Member]] = deque()
        self._running: dict[Future[_Outcome], Group] = {}
        self._stop = threading.Event()
        self.alone: list[int] = []
        self._ahead = ThreadPoolExecutor(options.workers, "draws", initializer=self._few_threads)
        self._workers = ThreadPoolExecutor(options.workers, "pack", initializer=self._few_threads)

    def _few_threads(self) -> None:
        torch.set_num_threads(self._options.threads)

    def run(self) -> Iterator[Finished]:
        """Run all packable chains; the others are left in `alone`."""
        try:
            yield from self._open_chains()
            while self._dispatch():
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in done:
                    del self._running[future]
                    yield from self._take(future.result())
                yield from self._open_chains()
        finally:
            self._stop.set()
            self._workers.shutdown(wait=True, cancel_futures=True)
            self._ahead.shutdown(wait=True, cancel_futures=True)
            for lock in self._locks.values():
                lock.close()
            self._yard.clear()

    def _open_chains(self) -> Iterator[Finished]:
        """Open chains up to the most that may be open at once."""
        while self._jobs and len(self._locks) < self._options.most_chains:
            number, job = self._jobs.popleft()
            folder = chain_folder(self._store, job.spec)
            with ExitStack() as lock:
                if not why_ended(folder.records(), job.rules):
                    lock.enter_context(folder.locked())
                records = folder.records()
                shown = within(records, job.rules)
                for count, record in enumerate(shown, 1):
                    yield Finished(number=number, record=record, ended=why_ended(shown[:count], job.rules))
                if why_ended(records, job.rules):
                    continue
                folder.tidy(len(records))
                with HOST:
                    chain = self._opener(job.spec, self._store, job.dataset())
                    if not self._packable(chain):
                        self.alone.append(number)
                        continue
                    level = open_level(chain, records)
                member = Member(number=number, job=job, chain=chain, records=tuple(records), level=level)
                self._ready.setdefault(group_of(member), []).append(member)
                self._locks[number] = lock.pop_all()

    def _packable(self, chain: Chain) -> bool:
        if chain.dataset.train.streams or chain.dataset.test.streams:
            return False
        try:
            self._yard.check(kind_of(chain), chain)
        except Unpackable as reason:
            LOG.warning("%s trains alone: %s", chain.spec.family, reason)
            return False
        return True

    def _dispatch(self) -> bool:
        """Give work to idle streams, longest first; whether anything is running."""
        while len(self._running) < self._options.workers:
            members = self._next()
            if members is None:
                break
            group = group_of(members[0])
            shape = self._yard.shape(group.kind, members)
            self._running[self._workers.submit(self._level, members, shape)] = group
        return bool(self._running)

    def _next(self) -> list[Member] | None:
        if self._formed:
            return self._formed.popleft()
        waiting = sorted(self._ready, key=self._work, reverse=True)
        for group in waiting:
            members = self._ready[group]
            width = sum(member.width for member in members)
            budget = self._yard.budget(group.kind, members)
            if width < budget / 2 and group in self._running.values():
                continue  # the others of its group come back soon, and one fuller pack is cheaper than two
            del self._ready[group]
            self._formed.extend(deal(members, budget))
            return self._formed.popleft()
        return None

    def _work(self, group: Group) -> float:
        """Steps that a group has still to do along its longest chain."""
        return (group.last - group.first) * max(map(levels_left, self._ready[group]))

    def _level(self, members: list[Member], shape: Shape) -> _Outcome:
        """One level of a pack, trained and stored: the work of a stream's thread."""
        group = group_of(members[0])
        try:
            if self._stop.is_set():
                raise Stopped
            with self._yard.runner(group.kind, shape, members[0].chain) as runner:
                end = train_level(runner, members, places(shape, members), self._ahead, self._stop)
        except Stopped:
            return _Outcome(finished=[], following=[], apart=[])
        except torch.OutOfMemoryError:
            if len(members) == 1:
                raise
            self._yard.shrink(group.kind, shape)
            return _Outcome(finished=[], following=[], apart=_halves(members))
        except Exception as failure:
            if not self._yard.give_up_compiling(group.kind, failure):
                raise
            return _Outcome(finished=[], following=[], apart=[members])
        if isinstance(end, Spoilt):
            if len(members) > 1:
                return _Outcome(finished=[], following=[], apart=_apart(members, end.suspects))
            end = Ends(trained=[diverged(end, self._device, 0.0)], rewinds=None)
        rewinds: Sequence[dict[str, torch.Tensor] | None] = end.rewinds or [None for _ in members]
        finished, following = [], []
        for member, trained, rewind in zip(members, end.trained, rewinds, strict=True):
            done, after = _close(member, trained, rewind)
            finished.append(done)
            following.extend(after)
        return _Outcome(finished=finished, following=following, apart=[])

    def _take(self, outcome: _Outcome) -> Iterator[Finished]:
        for finished in outcome.finished:
            if finished.ended:
                self._locks.pop(finished.number).close()
            yield finished
        for member in outcome.following:
            self._ready.setdefault(group_of(member), []).append(member)
        self._formed.extend(outcome.apart)


def _close(
    member: Member, trained: Trained, rewind: dict[str, torch.Tensor] | None
) -> tuple[Finished, list[Member]]:
    """Store a finished level and open the next one."""
    chain, level, job = member.chain, member.level, member.job
    with HOST:
        weights = chain.spec.method.retraining == "weight-rewinding"
        if level.level == 0 and weights and rewind is not None:
            write_packed(chain.folder.rewind, rewind, level.masks, 0)
        record = close_level(chain, member.records, level, trained, keep_weights=job.keep_weights)
        records = (*member.records, record)
        ended = why_ended(records, job.rules)
        finished = Finished(number=member.number, record=record, ended=ended)
        if ended:
            return finished, []
        following = open_level(chain, records)
    return finished, [Member(number=member.number, job=job, chain=chain, records=records, level=following)]


def _apart(members: list[Member], suspects: Sequence[int]) -> list[list[Member]]:
    """The first to show numbers that are not finite, and the rest; halves if all showed them at once."""
    if len(suspects) == len(members):
        return _halves(members)
    return [
        [member for place, member in enumerate(members) if (place in suspects) == suspected]
        for suspected in (True, False)
    ]


def _halves(members: list[Member]) -> list[list[Member]]:
    middle = len(members) // 2
    return [members[:middle], members[middle:]]

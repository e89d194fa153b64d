"""The scheduler of a fleet: chains are opened, packed, trained and closed by coroutines of the device thread.

Packs are formed anew at every level. Several train at the same time, each on its own stream.
"""

import contextlib
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from prunecast.errors import StoreError
from prunecast.fleet.chains import Opener, close_member, draws_noise, open_taken, take_chain
from prunecast.fleet.device import (
    GUARD,
    Coroutine,
    Loop,
    clear_tracebacks,
    host_threads,
    result_of,
    run_in_device_thread,
)
from prunecast.fleet.level import Diverged, LevelResult, LevelStopped, LevelTraining
from prunecast.fleet.members import (
    ChainFailed,
    ChainJob,
    FleetOptions,
    LevelFinished,
    Member,
    PackKind,
    group_of,
    kind_of,
)
from prunecast.fleet.queue import (
    BUDGET,
    BUDGET_ON_CPU,
    ChainGroup,
    InProgress,
    PackQueue,
    RemainingWork,
    Training,
    chain_group,
    halves,
    rank_of,
    shape_of,
    split,
    work_of_level,
)
from prunecast.fleet.runner import Runner, device_tensors
from prunecast.fleet.runner_pool import RunnerPool
from prunecast.fleet.slots import Shape, assign_slots, widths
from prunecast.pruning import Record, Trained, needs_images, open_chain, run_chain, why_ended
from prunecast.text import plural
from prunecast.training import settings

LOG = logging.getLogger(__name__)
FULL_PACKS = 2
"""The maximum total width of packs in training, in budgets: two full packs, or several narrow ones."""
FleetEvent = LevelFinished | ChainFailed


@dataclass(frozen=True, kw_only=True, eq=False)
class PackInTraining(Training):
    """A level of some members in a pack of this kind and shape."""

    members: list[Member]
    kind: PackKind
    shape: Shape
    runner: Runner


class Scheduler:
    """Runs chains of one precision on one device.

    Only the thread that calls `run` may use it, except for `stop`.
    """

    def __init__(
        self,
        jobs: Sequence[tuple[int, ChainJob]],
        store: Path,
        device: torch.device,
        options: FleetOptions,
        opener: Opener,
    ) -> None:
        """Prepare; no chain is opened yet."""
        self._store, self._device, self._options, self._opener = store, device, options, opener
        self._loop, self._stopping = Loop(), threading.Event()
        self._reason: BaseException | None = None
        self._remaining = RemainingWork(jobs)
        self._jobs = deque(sorted(jobs, key=lambda numbered: _opening_order(numbered[1])))
        self._pool = RunnerPool([job.spec for _, job in jobs], options, self._packs_at_once())
        self._in_progress = InProgress()
        self._queue = PackQueue(self._pool.budget, self._in_progress, self._pool.mixes)
        self._locks: dict[int, ExitStack] = {}
        """Locks of open chains."""
        self._widths: dict[int, float] = {}
        """Widths of open chains."""
        self._singles: set[int] = set()
        """Open chains whose networks cannot be packed."""
        self.for_plain_loop: list[int] = []
        """Jobs for the plain loop after the fleet: streamed data, random numbers, networks that failed here."""
        self.reported: Counter[int] = Counter()
        """The number of reported levels of each job."""

    def stop(self, reason: BaseException | None = None) -> None:
        """Start no other level, and let those in training store their progress soon; any thread may call it.

        Locks are released with this reason; the store records it if it is a time limit.
        """
        self._reason = reason
        self._stopping.set()
        self._loop.wake()

    def run(self, report: Callable[[FleetEvent], None]) -> None:
        """Run all chains except those in `for_plain_loop`, and report every finished level."""
        began = time.perf_counter()
        self._report = report
        with host_threads(2 * self._options.most_packs + 4, self._options.threads) as self._host:
            try:
                changed = True
                while changed or self._loop:
                    if changed:
                        self._open_next()
                        self._dispatch()
                    changed = self._loop.step() if self._loop else False
            finally:
                self._end()
                LOG.info(
                    "The fleet ran for %.1f s; building packs took %.1f s of it.",
                    *(time.perf_counter() - began, self._pool.building_seconds),
                )

    def _end(self) -> None:
        """Let every level in training store its progress, and release everything."""
        self._stopping.set()
        try:
            while self._loop:
                with contextlib.suppress(
                    Exception
                ):  # a full disk or a broken device: the first exception is raised
                    self._loop.step()
        finally:
            for lock in self._locks.values():
                lock.__exit__(None if self._reason is None else type(self._reason), self._reason, None)
            self._pool.clear()

    def _open_next(self) -> None:
        """Start to open the next chain; one is opened at a time, while others train."""
        if self._jobs and self._has_room() and not self._in_progress.opening and not self._stopping.is_set():
            number, job = self._jobs.popleft()
            self._in_progress.opening.append(chain_group(job.spec))
            self._loop.start(self._open(number, job))

    def _has_room(self) -> bool:
        if not self._widths:
            return True
        most = self._options.most_width
        narrow = most is None or sum(self._widths.values()) + self._jobs[0][1].spec.width <= most
        return narrow and len(self._widths) < self._options.most_chains

    def _coming(self) -> list[ChainGroup]:
        """The groups of the chain that is being opened and of the next one."""
        following = [chain_group(self._jobs[0][1].spec)] if self._jobs and self._has_room() else []
        return [*self._in_progress.opening, *following]

    def _open(self, number: int, job: ChainJob) -> Coroutine[None]:
        """Open a chain and report its stored levels; report a failure if it cannot be opened."""
        try:
            yield from self._opened(number, job)
        except StoreError:
            raise
        except Exception as problem:
            self._fail(number, problem)
        finally:
            self._in_progress.opening.remove(chain_group(job.spec))

    def _opened(self, number: int, job: ChainJob) -> Coroutine[None]:
        taken = yield from result_of(self._host.submit(take_chain, number, job, self._store))
        self._locks[number], self._widths[number] = taken.lock, job.spec.width
        for finished in taken.finished:
            self._finish(finished)
        if taken.ended:
            self._release(number)
            return
        dataset = job.dataset()
        streams = dataset.train.streams or dataset.test.streams
        if streams or needs_images(job.spec.method):
            self._leave_to_plain_loop(number)
            return
        opening = self._host.submit(open_taken, number, job, self._store, dataset, taken, self._opener)
        member = yield from result_of(opening)
        kind = kind_of(member.chain)
        packable = self._pool.add(kind, member.chain)
        if not self._pool.mixes(kind):
            self._remaining.keep_widths_apart(chain_group(job.spec))
        if not packable:
            image_shape = dataset.train.image_shape
            noise = self._host.submit(draws_noise, member.chain.untrained, image_shape)
            if (yield from result_of(noise)):
                self._leave_to_plain_loop(number)
                return
            self._singles.add(number)
        self._queue.put(member)

    def _dispatch(self) -> None:
        """Start packs, those with the most work first, until the device is full."""
        in_progress = self._in_progress
        while (
            not self._stopping.is_set()
            and len(in_progress.training) < self._options.most_packs
            and in_progress.full_packs < FULL_PACKS
        ):
            at_once = self._options.most_packs if self._singles else self._packs_at_once()
            members = self._queue.next_pack(at_once, self._coming())
            if members is None or not self._start(members):
                return

    def _packs_at_once(self) -> int:
        usual = BUDGET if self._device.type == "cuda" else BUDGET_ON_CPU
        return self._remaining.packs_at_once(self._options.budget or usual, self._options.most_packs)

    def _start(self, members: list[Member]) -> bool:
        """Start a level of a pack; return False if it must wait until another pack gives its runner back."""
        kind = group_of(members[0]).kind
        if self._pool.budget(kind, members) is None and not self._trains_alone(members):
            return True
        shape: Shape = shape_of(members)
        try:
            shape = self._pool.shape(kind, members)
            runner = self._pool.take(kind, shape, members[0].chain)
        except torch.OutOfMemoryError as failure:
            clear_tracebacks(failure)
            self._pool.shrink(kind, shape)
            self._retry_in_halves(members, failure)
            return True
        except Exception as failure:
            self._retry_in_halves(members, failure)
            return True
        if runner is None:
            self._queue.put_back(members)
            return False
        GUARD.own(device_tensors(runner))
        budget = self._pool.budget(kind, members)
        share = 0.0 if budget is None else sum(widths(shape)) / max(BUDGET, budget)
        rank = rank_of(members)
        pack = PackInTraining(rank=rank, share=share, members=members, kind=kind, shape=shape, runner=runner)
        self._in_progress.training.append(pack)
        self._loop.start(self._train(pack), runner.current)
        return True

    def _trains_alone(self, members: list[Member]) -> bool:
        """Whether a pack is one network that trains alone; a pack whose stack failed is divided into such packs."""
        if members[0].number in self._singles:
            return True
        for member in members:
            if draws_noise(member.chain.untrained, member.chain.dataset.train.image_shape):
                self._leave_to_plain_loop(member.number)
            else:
                self._singles.add(member.number)
                self._queue.put_packs([[member]])
        return False

    def _train(self, pack: PackInTraining) -> Coroutine[None]:
        """Train one level of a pack; if it fails, its members train again, in another mode or in halves."""
        level = LevelTraining(
            runner=pack.runner,
            members=pack.members,
            slots=assign_slots(pack.shape, pack.members),
            shape=pack.shape,
            host=self._host,
            stopping=self._stopping.is_set,
            checkpoint_seconds=self._options.checkpoint_seconds,
        )
        try:
            end = yield from level.run()
        except Exception as failure:
            pack.runner.synchronize()
            self._pool.discard(pack.kind, pack.shape, pack.runner)
            self._failed_level(pack, failure)
        else:
            self._pool.give_back(pack.kind, pack.shape, pack.runner)
            self._ended_level(pack, end)
        finally:
            self._in_progress.training.remove(pack)

    def _failed_level(self, pack: PackInTraining, failure: Exception) -> None:
        if isinstance(failure, LevelStopped):
            return
        if isinstance(failure, StoreError):
            raise failure
        if isinstance(failure, torch.OutOfMemoryError):
            self._pool.shrink(pack.kind, pack.shape)
        elif self._pool.give_up(pack.kind, pack.shape, pack.runner, failure):
            self._queue.put_packs([pack.members])
            return
        self._retry_in_halves(pack.members, failure)

    def _ended_level(self, pack: PackInTraining, end: LevelResult | Diverged) -> None:
        if isinstance(end, Diverged):
            self._queue.put_packs(split(pack.members, end.suspects))
            return
        rewinds: Sequence[Mapping[str, Tensor] | None] = end.rewinds or [None for _ in pack.members]
        for member, trained, rewind in zip(pack.members, end.trained, rewinds, strict=True):
            self._loop.start(self._close(member, trained, rewind))

    def _retry_in_halves(self, members: list[Member], failure: Exception) -> None:
        """Divide a failed pack into halves to find the member at fault; the plain loop trains one that fails alone."""
        LOG.warning("A pack of %s failed: %r", plural(len(members), "network"), failure)
        oom = isinstance(failure, torch.OutOfMemoryError)
        if not oom and self._pool.unstack(group_of(members[0]).kind, failure):
            self._queue.put_packs([members])
            return
        if len(members) == 1:
            self._leave_to_plain_loop(members[0].number)
        else:
            self._queue.put_packs(halves(members))

    def _close(
        self, member: Member, trained: Trained, rewind: Mapping[str, Tensor] | None
    ) -> Coroutine[None]:
        """Store a finished level and open the next one."""
        rank = rank_of([member])
        self._in_progress.closing.append(rank)
        try:
            finished, following = yield from result_of(
                self._host.submit(close_member, member, trained, rewind)
            )
        except StoreError:
            raise
        except Exception as problem:
            self._fail(member.number, problem)
        else:
            self._finish(finished)
            if following is not None:
                self._queue.put(following)
        finally:
            self._in_progress.closing.remove(rank)

    def _finish(self, finished: LevelFinished) -> None:
        self.reported[finished.number] += 1
        self._remaining.finish(finished.number)
        if finished.ended:
            self._release(finished.number)
        self._report(finished)

    def _fail(self, number: int, problem: Exception) -> None:
        clear_tracebacks(problem)
        self._release(number)
        self._report(ChainFailed(number=number, problem=problem))

    def _leave_to_plain_loop(self, number: int) -> None:
        """Leave a chain to the plain loop."""
        self._release(number)
        self.for_plain_loop.append(number)

    def _release(self, number: int) -> None:
        """Release a chain's lock, if it has one, and forget its remaining work."""
        self._remaining.end(number)
        self._singles.discard(number)
        self._widths.pop(number, None)
        if number in self._locks:
            self._locks.pop(number).close()


def _opening_order(job: ChainJob) -> tuple[int, str]:
    """Sorts chains with the most work per level first, and the chains of a group together."""
    return -work_of_level(job.spec), repr(chain_group(job.spec))


def fleet_events(
    jobs: Sequence[ChainJob],
    store: Path,
    *,
    device: torch.device,
    options: FleetOptions | None = None,
    opener: Opener = open_chain,
) -> Iterator[FleetEvent]:
    """Run every chain as far as it goes and yield each level as it is finished, stored ones at once.

    A chain that raises, or that another process holds, is reported as failed. A store that cannot be written ends
    everything with a StoreError. Only the device thread uses the device meanwhile. Then the plain loop trains, in the
    caller's thread, the chains that a fleet cannot train.
    """
    options = options or FleetOptions()
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    for precision in sorted({job.spec.recipe.precision for job in jobs}):
        alike = [(number, job) for number, job in enumerate(jobs) if job.spec.recipe.precision == precision]
        scheduler = Scheduler(alike, store, device, options, opener)
        threads = max((job.spec.threads for _, job in alike), default=1)
        with settings(precision, device, threads, trials=False):
            yield from run_in_device_thread(device, scheduler.run, scheduler.stop)
        for number in scheduler.for_plain_loop:
            yield from _run_plain(number, jobs[number], store, scheduler.reported[number])


def _run_plain(number: int, job: ChainJob, store: Path, reported: int) -> Iterator[FleetEvent]:
    """Continue a chain with the plain loop; levels that were reported are not reported again."""
    records: list[Record] = []
    try:
        for record in run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=job.keep_weights):
            records.append(record)
            if len(records) > reported:
                yield LevelFinished(number=number, record=record, ended=why_ended(records, job.rules))
    except StoreError:
        raise
    except Exception as problem:
        yield ChainFailed(number=number, problem=problem)

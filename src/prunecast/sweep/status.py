"""The state of each chain in the store, the progress of a run and its time left, and edits to a plan."""

import fcntl
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Literal

from prunecast.errors import PrunecastError, UnreadableError
from prunecast.files import open_at_once, remove_temporary_files
from prunecast.pruning import (
    ERROR_REACHED,
    FORMAT,
    LEVEL_CAP,
    Holder,
    Record,
    chain_folder,
    holder_of,
    make_folder,
    read_json,
    why_ended,
    within,
    write_json,
)
from prunecast.spec import ChainSpec, ErrorRise, Select, left_out
from prunecast.sweep.cost import level_work
from prunecast.sweep.events import Event, Failed, Failure, LeftOut, Progress, failure_of
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan

State = Literal["ended", "running", "failed", "damaged", "unreadable", "left out", "begun", "waiting"]


@dataclass(frozen=True, kw_only=True)
class ChainStatus:
    """The state of one chain of a plan in the store."""

    number: int
    """The chain's position in the plan, from 1."""
    chain: PlannedChain
    records: tuple[Record, ...] = ()
    """The finished levels that count under the plan's rules."""
    ended: str = ""
    """Why the chain has ended; empty while it continues."""
    failure: Failure | None = None
    problem: str = ""
    """Why its records cannot be read."""
    intact: bool = True
    """False if the records are damaged, not just unreadable for this user."""
    locked: bool = field(default=False, compare=False)
    """Whether a process is working on it now."""
    holder: Holder | None = field(default=None, compare=False)
    """The process that locked it last."""
    left_out: ErrorRise | None = None
    """Why the selection rule leaves it out."""

    @property
    def state(self) -> State:
        """The status in one word."""
        if self.problem:
            return "unreadable" if self.intact else "damaged"
        if self.left_out:
            return "left out"
        if self.ended:
            return "ended"
        if self.locked:
            return "running"
        if self.failure:
            return "failed"
        return "begun" if self.records else "waiting"


def chain_statuses(plan: Plan, store: Path) -> list[ChainStatus]:
    """The status of every chain, in the order of the plan. It does not write to the store."""
    found = [chain_status(number, chain, store) for number, chain in enumerate(plan.chains, 1)]
    reasons = {left.number: left.reason for left in selection(found)}
    return [replace(status, left_out=reasons.get(status.number)) for status in found]


def selection(statuses: Sequence[ChainStatus]) -> list[LeftOut]:
    """The chains that the selection rule leaves out, given the unpruned errors so far."""
    errors: dict[Select, dict[ChainSpec, float]] = {}
    for status in statuses:
        if status.chain.select and status.records:
            errors.setdefault(status.chain.select, {})[status.chain.spec] = status.records[0].error
    reasons: dict[ChainSpec, ErrorRise] = {}
    for rule, unpruned in errors.items():
        reasons.update(left_out(rule, unpruned))
    return [
        LeftOut(number=status.number, chain=status.chain, reason=reasons[status.chain.spec])
        for status in statuses
        if status.chain.select and status.chain.spec in reasons
    ]


def chain_status(number: int, chain: PlannedChain, store: Path) -> ChainStatus:
    """The status of one chain, without the selection rule, which compares chains."""
    folder = chain_folder(store, chain.spec)
    failure = failure_of(store, chain.spec)
    try:
        records = tuple(within(folder.records(), chain.rules))
    except PrunecastError as problem:
        intact = isinstance(problem, UnreadableError)
        return ChainStatus(number=number, chain=chain, failure=failure, problem=str(problem), intact=intact)
    ended = why_ended(records, chain.rules)
    return ChainStatus(
        number=number,
        chain=chain,
        records=records,
        ended=ended,
        failure=None if ended else failure,
        locked=not ended and is_locked(folder.path / "lock"),
        holder=holder_of(folder.path),
    )


def is_locked(lock: Path) -> bool:
    """Whether a process holds this lock file. The check itself holds a shared lock for an instant."""
    try:
        with os.fdopen(open_at_once(lock, os.O_RDONLY)) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # absent, or not to be read by this user
        return False
    return False


Size = tuple[str, int, float, int, str]


def _levels_to(final: int, last: Record, fraction: float) -> int:
    """How many levels take a network from a record to a number of weights, at its share per level so far.

    An unpruned network is expected to lose the fraction in rows and in columns, as when whole units are removed.
    """
    left = last.nonzero / last.weights
    kept = left ** (1 / last.level) if last.level and left < 1 else (1 - fraction) ** 2
    return max(1, math.ceil(math.log(max(last.nonzero / final, 1.0)) / -math.log(kept) - 1e-9))


class SweepProgress:
    """Counts the finished levels and chains of a run, and estimates the time left.

    A level is expected to take the mean time of finished levels of its configuration. If there are none, the time is
    scaled from the configuration nearest in size. A chain is expected to reach its level cap, or the mean level at
    which chains of this run ended early. A chain that ends at a number of weights is expected to lose the same share of
    them at every level.
    """

    def __init__(self, statuses: Sequence[ChainStatus]) -> None:
        """Count what the store already has."""
        self._chains = {own.number: own.chain for own in statuses}
        self._levels = {own.number: len(own.records) for own in statuses}
        self._closed = {own.number for own in statuses if own.ended or own.left_out}
        self._ended_early = [len(own.records) for own in statuses if own.ended and own.ended != LEVEL_CAP]
        self._work = {_size(own.chain): level_work(own.chain.spec, 1) for own in statuses}
        self._seconds: dict[Size, list[float]] = {}
        self._last = {own.number: own.records[-1] for own in statuses if own.records}
        self.failed: list[Failed] = []
        self.left_out: list[LeftOut] = []
        self.latest: dict[int, Progress] = {}
        """The latest level of each chain that is not finished, the most recent last."""
        self.trained = 0.0
        """Seconds of all levels finished since the start."""
        for status in statuses:
            for record in status.records[:1] + status.records[-1:]:
                self._add_time(status.chain, record)

    def update(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, Progress):
            self._levels[event.number] = max(self._levels[event.number], event.record.level + 1)
            self.latest.pop(event.number, None)
            self.latest[event.number] = event
            self.trained += event.record.seconds
            self._last[event.number] = event.record
            self._add_time(event.chain, event.record)
            if event.ended == LEVEL_CAP and self._level_cap(event.number) >= self._levels[event.number]:
                return  # the unpruned level for the selection rule; the chain may continue
            if event.ended:
                self._close(event.number, event.ended)
        elif isinstance(event, Failed):
            self.failed.append(event)
            self._closed.add(event.number)
        elif isinstance(event, LeftOut):
            self.left_out.append(event)
            self._closed.add(event.number)

    def _close(self, number: int, why: str) -> None:
        self._closed.add(number)
        self.latest.pop(number, None)
        if why not in (LEVEL_CAP, ERROR_REACHED):
            self._ended_early.append(self._levels[number])

    def _level_cap(self, number: int) -> int:
        return self._chains[number].rules.level_cap

    def _add_time(self, chain: PlannedChain, record: Record) -> None:
        self._seconds.setdefault(_size(chain), []).append(record.seconds)

    @property
    def chains(self) -> int:
        """Chains of the plan."""
        return len(self._chains)

    @property
    def chains_done(self) -> int:
        """Chains that have ended, failed or been left out."""
        return len(self._closed)

    @property
    def levels_done(self) -> int:
        """Training runs in the store."""
        return sum(self._levels.values())

    @property
    def levels_expected(self) -> int:
        """Training runs expected in all, those in the store included."""
        unfinished = (number for number in self._chains if number not in self._closed)
        return self.levels_done + sum(map(self._levels_left, unfinished))

    def _levels_left(self, number: int) -> int:
        done, most = self._levels[number], self._level_cap(number) + 1
        final, last = self._chains[number].rules.final_nonzero, self._last.get(number)
        if final and last is not None:
            most = min(most, done + _levels_to(final, last, self._chains[number].spec.method.fraction))
        likely = round(fmean(self._ended_early)) if self._ended_early else most
        return max(1, min(most, max(likely, 1)) - done)

    def seconds_left(self) -> float | None:
        """Seconds of training left, summed over chains; None before any level has finished."""
        if not self._seconds:
            return None
        expected = {size: self._seconds_per_level(size) for size in self._work}
        return sum(
            self._levels_left(number) * expected[_size(chain)]
            for number, chain in self._chains.items()
            if number not in self._closed
        )

    def seconds_per_level(self, chain: PlannedChain) -> float:
        """Expected seconds of a level of a chain; its multiply-adds before any level has finished."""
        return self._seconds_per_level(_size(chain)) if self._seconds else level_work(chain.spec, 1)

    def _seconds_per_level(self, size: Size) -> float:
        """The mean time of finished levels of this size, or that of the size nearest in work, scaled.

        Small networks take longer than their multiply-adds suggest, so time is scaled by the square root of the work.
        """
        known = self._seconds.get(size)
        if known:
            return fmean(known)
        work = self._work[size]
        nearest = min(self._seconds, key=lambda other: abs(math.log(self._work[other] / work)))
        return fmean(self._seconds[nearest]) * math.sqrt(work / self._work[nearest])


def _size(chain: PlannedChain) -> Size:
    spec = chain.spec
    return spec.family, spec.depth, spec.width, spec.num_examples, spec.recipe.name


@dataclass(frozen=True, kw_only=True)
class PlanEdit:
    """The differences between a plan and its last run in a store."""

    added: int
    """Chains that the plan did not have."""
    removed: int
    """Chains that it no longer has; their results stay in the store."""
    recapped: int
    """Chains with a different level cap."""


def plan_edit(plan: Plan, store: Path) -> PlanEdit | None:
    """The differences between a plan and its last run in this store; None if there are none, or it never ran."""
    try:
        before = read_json(_remembered(plan, store)).get("chains")
    except PrunecastError:
        return None  # the file is only for this notice
    if not isinstance(before, dict):
        return None
    now = _level_caps(plan)
    found = PlanEdit(
        added=len(now.keys() - before.keys()),
        removed=len(before.keys() - now.keys()),
        recapped=sum(before[digest] != now[digest] for digest in now.keys() & before.keys()),
    )
    return found if found.added or found.removed or found.recapped else None


def remember_plan(plan: Plan, store: Path) -> None:
    """Save the chains of a plan, so that the next run can report edits."""
    path = _remembered(plan, store)
    make_folder(path.parent)
    remove_temporary_files(path.parent)
    write_json(path, {"format": FORMAT, "chains": _level_caps(plan)})


def _level_caps(plan: Plan) -> dict[str, int]:
    return {chain.spec.digest: chain.rules.level_cap for chain in plan.chains}


def _remembered(plan: Plan, store: Path) -> Path:
    return store / "plans" / f"{plan.name}.json"

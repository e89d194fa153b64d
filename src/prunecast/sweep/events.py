"""What a sweep reports while it runs, and the signature of whatever runs its chains."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunecast.pruning import Record
from prunecast.spec import ErrorRise
from prunecast.sweep.grid import PlannedChain


@dataclass(frozen=True, kw_only=True)
class Job:
    """A chain to be run to its end."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain
    done: int = 0
    """Levels that were reported already."""
    failures: int = 0
    """Runs in a row that had failed before this one; a higher count in the store is a failure of this run."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A level that is finished."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain
    record: Record
    ended: str
    """Why the chain ended with this level; empty while it continues."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A chain that raised; the store keeps the traceback, and the next run tries again."""

    number: int
    chain: PlannedChain
    error: str
    """The exception in one line."""
    traceback: str


@dataclass(frozen=True, kw_only=True)
class Busy:
    """A chain that another process works on at the moment; the sweep comes back to it."""

    number: int
    chain: PlannedChain


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A chain that the selection rule leaves out of the plan."""

    number: int
    chain: PlannedChain
    reason: ErrorRise
    """Why its unpruned network is too large for its data."""


Outcome = Progress | Failed | Busy
Event = Outcome | LeftOut

Executor = Callable[[Sequence[Job], Path], Iterator[Outcome]]
"""Runs all jobs and yields their events: `work` in this process, `drive` through a backend."""

"""Events of a sweep, the type of the functions that run chains, and failures, which the store keeps."""

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunecast.errors import PrunecastError, UnreadableError
from prunecast.files import is_there
from prunecast.pruning import (
    FORMAT,
    Record,
    chain_folder,
    code_version,
    is_whole,
    make_folder,
    read_json,
    write_json,
)
from prunecast.spec import ChainSpec, ErrorRise
from prunecast.sweep.grid import PlannedChain
from prunecast.text import printable


@dataclass(frozen=True, kw_only=True)
class Job:
    """A chain to be run to its end."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain
    done: int = 0
    """Levels that are in the store and were reported."""
    failures: int = 0
    """How many runs in a row have failed before this one. A higher count in the store is a failure of this run."""


@dataclass(frozen=True, kw_only=True)
class ChainEvent:
    """Something that happened to a chain of a plan."""

    number: int
    """The chain's place in the plan, from 1."""
    chain: PlannedChain


@dataclass(frozen=True, kw_only=True)
class Progress(ChainEvent):
    """A level that is finished."""

    record: Record
    ended: str
    """Why the chain ended with this level; empty while it continues."""


@dataclass(frozen=True, kw_only=True)
class Failed(ChainEvent):
    """A chain that raised. The store keeps the traceback, and the next run tries it again."""

    error: str
    """The exception in one line."""
    traceback: str


@dataclass(frozen=True, kw_only=True)
class Busy(ChainEvent):
    """A chain that another process is training; the sweep checks it again later."""


@dataclass(frozen=True, kw_only=True)
class LeftOut(ChainEvent):
    """A chain that the selection rule leaves out of the plan."""

    reason: ErrorRise
    """Why its unpruned network is too large for its data."""


Outcome = Progress | Failed | Busy
Event = Outcome | LeftOut

Executor = Callable[[Sequence[Job], Path], Iterator[Outcome]]
"""Runs all jobs and yields their events: `work` in this process, or `drive` with a backend."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a chain stopped before its end; the store keeps it until the chain continues."""

    error: str
    """The exception in one line."""
    traceback: str
    times: int
    """How many runs in a row have failed."""


def record_failure(store: Path, job: Job, problem: BaseException) -> Failure:
    """Write a failure to the chain's folder."""
    lines = traceback.format_exception(problem)
    return write_failure(store, job, in_one_line(problem), "".join(lines))


def write_failure(store: Path, job: Job, error: str, trace: str) -> Failure:
    """Replace the chain's failure. A run counts once, however many of its workers fail with the chain."""
    failure = Failure(error=error, traceback=trace, times=job.failures + 1)
    path = failure_path(store, job.chain.spec)
    make_folder(path.parent)
    write_json(path, {"format": FORMAT, "code": code_version(), **vars(failure)})
    return failure


def failure_of(store: Path, spec: ChainSpec) -> Failure | None:
    """The chain's failure, if it has one."""
    path = failure_path(store, spec)
    try:
        if not is_there(path):
            return None
        body = read_json(path)
    except UnreadableError as problem:
        return Failure(error=str(problem), traceback="", times=1)
    except PrunecastError:
        body = {}
    error, trace, times = body.get("error"), body.get("traceback"), body.get("times")
    if isinstance(error, str) and isinstance(trace, str) and is_whole(times, 1):
        return Failure(error=printable(error), traceback=trace, times=times)
    return Failure(error=f"{path} is damaged; the next run replaces it", traceback="", times=1)


def new_failure(job: Job, store: Path) -> Failure | None:
    """The chain's failure if it failed in this run, whichever worker ran it."""
    failure = failure_of(store, job.chain.spec)
    return failure if failure and failure.times > job.failures else None


def forget_failure(store: Path, spec: ChainSpec) -> None:
    """Remove the failure of a chain that has continued."""
    with contextlib.suppress(OSError):  # a finished chain may be in a store that is read-only now
        failure_path(store, spec).unlink(missing_ok=True)


def in_one_line(problem: BaseException) -> str:
    """An exception in one line; that of a user's mistake is a sentence already."""
    words = printable(" ".join(str(problem).split()))
    if isinstance(problem, PrunecastError):
        return words
    return f"{type(problem).__name__}: {words}" if words else type(problem).__name__


def failure_path(store: Path, spec: ChainSpec) -> Path:
    """The file of a chain's failure."""
    return chain_folder(store, spec).path / "failure.json"

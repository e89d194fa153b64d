"""Which process holds a chain, and how many workers died on it: the file worker.json next to the chain's lock.

A worker records that it releases a chain. One that is killed cannot, and the next worker to take the chain sees that.
Deaths count against a chain only while it makes no progress: see `DeathsError`.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning.files import is_finite, is_whole, read_json, write_json

NAME = "worker.json"
FORMAT = 1
TRIES = 3
"""How many workers in a row may die on a chain without progress; PRUNECAST_TRIES sets another number."""

FileVersion = tuple[int, int]
"""When a file was last written in nanoseconds, and its size: some file systems count time in seconds."""
Footprint = tuple[FileVersion, FileVersion]
"""The versions of a chain's records and of its checkpoint: they change when the chain makes progress."""
NO_FILE: FileVersion = (0, 0)


class DeathsError(PrunecastError):
    """Too many workers in a row died on a chain without a new level or checkpoint; it fails for this run."""

    def __init__(self, deaths: float, how: str) -> None:
        """`how` says how the last one ended, and what may help."""
        super().__init__(
            f"{int(deaths)} workers in a row died on this chain without a new level or checkpoint; {how}"
        )
        self.deaths = deaths


class TimeLimitReached(BaseException):
    """A worker's time is over. It counts as a death for a chain that has not made progress since it was taken."""


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that took a chain last."""

    host: str
    pid: int
    since: str
    """When it took the chain, in UTC."""
    tries: int
    """Which try this is: 1 + the processes that were killed while they held the chain."""
    left: bool
    """Whether it released the chain itself."""
    deaths: float = 0
    """Deaths in a row without progress before it took the chain."""
    footprint: Footprint | None = None
    """The chain's progress when this process took it; None in older stores."""

    def deaths_without_progress(self, now: Footprint, weight: float = 1) -> float:
        """The deaths in a row without progress, if this holder is gone; its own death counts `weight`."""
        return self.deaths + (0 if self.left else weight) if self.footprint == now else 0


@contextlib.contextmanager
def recorded_holder(folder: Path, *, weight: float = 1) -> Iterator[None]:
    """Record this process as the holder, unless too many workers died on the chain; call it only with the lock held.

    If the last holder died, its death counts `weight`.
    """
    before, now = holder_of(folder), footprint(folder)
    deaths = before.deaths_without_progress(now, weight) if before else 0
    tries = before.tries + (not before.left) if before else 1
    mine = {"host": socket.gethostname(), "pid": os.getpid(), "footprint": now, "format": FORMAT}
    mine["since"] = datetime.now(UTC).isoformat(timespec="seconds")
    if before and deaths >= most_deaths():
        write_json(folder / NAME, {**mine, "tries": before.tries, "deaths": 0, "left": True})
        how = f"the last was process {before.pid} on {before.host}. Is there enough memory for it?"
        raise DeathsError(deaths, how)
    mine |= {"tries": tries, "deaths": deaths}
    write_json(folder / NAME, {**mine, "left": False})
    try:
        yield
    except TimeLimitReached:
        raise
    except BaseException:
        _write_release(folder, mine)
        raise
    else:
        _write_release(folder, mine)


def _write_release(folder: Path, mine: dict[str, object]) -> None:
    with contextlib.suppress(PrunecastError, OSError):  # the next write reports a full disk
        if mine["tries"] == 1:
            (folder / NAME).unlink(missing_ok=True)
        else:
            write_json(folder / NAME, {**mine, "left": True})


def most_deaths() -> int:
    """How many workers may die on a chain without progress before it counts as failed."""
    return int(os.environ.get("PRUNECAST_TRIES", TRIES))


def holder_of(folder: Path) -> Holder | None:
    """The process that took the chain last; None if no process has it and none died on it, or in an older store."""
    try:
        body = read_json(folder / NAME)
        known = {name: body[name] for name in ("host", "pid", "since", "tries", "left")}
        found = body.get("footprint")
        versions = ((found[0][0], found[0][1]), (found[1][0], found[1][1])) if found else None
        holder = Holder(**known, deaths=body.get("deaths", 0), footprint=versions)
    except (PrunecastError, KeyError, IndexError, TypeError):  # nothing but reports depends on it
        return None
    return holder if _is_valid(holder) else None


def _is_valid(holder: Holder) -> bool:
    return (
        isinstance(holder.host, str)
        and isinstance(holder.since, str)
        and isinstance(holder.left, bool)
        and is_whole(holder.pid)
        and is_whole(holder.tries, 1)
        and is_finite(holder.deaths, 0)
    )


def footprint(folder: Path) -> Footprint:
    """The progress of a chain, as its files show it."""
    return file_version(folder / "records.json"), file_version(folder / "checkpoint.safetensors")


def file_version(path: Path) -> FileVersion:
    """The version of a file."""
    try:
        found = path.stat()
        return found.st_mtime_ns, found.st_size
    except OSError:
        return NO_FILE

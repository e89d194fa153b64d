"""Who works on a chain, kept beside its lock, and how many died or were killed over it before.

A process that lets go of a chain says so; one that is killed cannot, and the next to take the chain sees that.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning.files import read_json, write_json

NAME = "worker.json"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that took a chain last."""

    host: str
    pid: int
    since: str
    """When it took the chain, in UTC."""
    tries: int
    """Which try this is: one more than processes that were killed while they had the chain."""
    left: bool
    """Whether it let go of the chain itself."""


@contextlib.contextmanager
def signed(folder: Path) -> Iterator[None]:
    """Write down that this process works on the chain; only the holder of the lock may."""
    before = holder_of(folder)
    tries = 1 if before is None else before.tries + (not before.left)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    mine = {"host": socket.gethostname(), "pid": os.getpid(), "since": since, "tries": tries}
    write_json(folder / NAME, {"format": FORMAT, **mine, "left": False})
    try:
        yield
    finally:
        with contextlib.suppress(PrunecastError, OSError):  # a full disk is told by who meets it first
            if tries == 1:
                (folder / NAME).unlink(missing_ok=True)
            else:
                write_json(folder / NAME, {"format": FORMAT, **mine, "left": True})


def holder_of(folder: Path) -> Holder | None:
    """Who took the chain last; None if nobody has it and nobody died over it, or in a store older than this."""
    path = folder / NAME
    if not path.exists():
        return None
    try:
        body = read_json(path)
        return Holder(**{name: body[name] for name in ("host", "pid", "since", "tries", "left")})
    except (PrunecastError, KeyError):  # it is told, and nothing depends on it
        return None

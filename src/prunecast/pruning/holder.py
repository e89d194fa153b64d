"""Who works on a chain, kept beside its lock; it is true as long as the lock is held, and history afterwards."""

import os
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning.files import read_json, write_json

NAME = "worker.json"


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that took a chain last."""

    host: str
    pid: int
    since: str
    """When it took the chain, in UTC."""
    tries: int
    """How often the chain has been taken up, this time included."""


def sign(folder: Path) -> Holder:
    """Write down that this process works on the chain; only the holder of the lock may."""
    before = holder_of(folder)
    holder = Holder(
        host=socket.gethostname(),
        pid=os.getpid(),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
        tries=before.tries + 1 if before else 1,
    )
    write_json(folder / NAME, {"format": 1, **vars(holder)})
    return holder


def holder_of(folder: Path) -> Holder | None:
    """Who took the chain last; None for a chain that nobody has, or of a store that is older than this."""
    try:
        body = read_json(folder / NAME)
        return Holder(host=body["host"], pid=body["pid"], since=body["since"], tries=body["tries"])
    except (PrunecastError, KeyError):  # it is told, never decided by
        return None

"""Workers that die over chains: how often they may, and what is tried next; one rule wherever chains run.

Being killed says little about a chain as long as it gets on. What counts are deaths in vain: those after which
the store has neither a new level nor a new checkpoint.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from prunecast.pruning import chain_folder
from prunecast.sweep.events import Job, Share

TRIES = 3
"""How many workers may die over a chain in vain before it counts as failed."""

Written = tuple[int, int]
"""When a file was last written, and its size: some file systems count time in seconds, and records only grow."""
Footprint = tuple[Written, Written]
"""A chain's records and its checkpoint."""
NEVER: Written = (0, 0)


@dataclass(frozen=True, kw_only=True)
class Next:
    """What follows from a death."""

    again: tuple[Share, ...] = ()
    lost: Job | None = None
    """A chain that has had its last try."""
    times: float = 0
    """Deaths in vain so far."""


class Deaths:
    """Counts deaths in vain, by the first chain of a share."""

    def __init__(self, store: Path, *, tries: int = TRIES, whole: int | None = None) -> None:
        """A share of several chains goes apart after `whole` deaths in vain, by default as many as `tries`."""
        self._store, self._tries, self._whole = store, tries, whole or tries
        self._vain: dict[int, float] = {}

    def after(self, share: Share, before: tuple[Footprint, ...], left: Share, cost: float = 1) -> Next:
        """What to try next where a worker died over a share and left these chains; `before` is where it began."""
        number = left[0].number
        count = self._vain.pop(number, 0.0) + cost
        if footprints(share, self._store) != before:
            count = 0.0
        if count < (self._tries if len(left) == 1 else self._whole):
            self._vain |= {number: count} if count else {}
            return Next(again=(left,), times=count)
        if len(left) == 1:
            return Next(lost=left[0], times=count)
        half = len(left) // 2  # one of them may be to blame, and the halves will show which
        return Next(again=(left[:half], left[half:]), times=count)


def footprints(jobs: Iterable[Job], store: Path) -> tuple[Footprint, ...]:
    """What changes when chains get on, be it by a level or by a checkpoint."""
    folders = (chain_folder(store, job.chain.spec) for job in jobs)
    return tuple((written(own.path / "records.json"), written(own.checkpoint)) for own in folders)


def written(path: Path) -> Written:
    """When and how large a file was last written; a file that is not there never was."""
    try:
        found = path.stat()
        return found.st_mtime_ns, found.st_size
    except OSError:
        return NEVER

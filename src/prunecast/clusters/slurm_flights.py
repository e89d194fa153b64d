"""What a driver knows of chains that run elsewhere: what the store says of them, and which job has them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from prunecast.clusters.slurm_arrays import Array
from prunecast.clusters.watch import Watch
from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, why_ended
from prunecast.sweep.deaths import Footprint, footprints
from prunecast.sweep.events import Job, Progress, Share
from prunecast.sweep.resources import Resources
from prunecast.sweep.status import is_locked


@dataclass(kw_only=True)
class Flight:
    """A share that is in Slurm's queue, waiting or running."""

    share: Share
    need: Resources
    array: Array
    index: int
    job: str
    before: tuple[Footprint, ...]
    """Where its chains stood when they were last taken up."""
    waits: bool = True
    restarts: int = 0
    """How often Slurm has queued it again by itself."""
    setbacks: int = 0
    """How often of them nothing had been won since the last time."""
    heard: bool = False
    """Whether its worker's first words have been read."""
    given_up: bool = False
    """Whether the driver itself has cancelled it."""
    story: dict[str, str] = field(default_factory=dict)
    """What Slurm remembers of it after it has left the queue."""


class Chains:
    """The chains of a sweep as the store shows them, without any word from their workers."""

    def __init__(self, jobs: Sequence[Job], store: Path) -> None:
        self._jobs = {job.chain.spec.digest: job for job in jobs}
        self._store, self._watch = store, Watch(store)
        self._open = {self._watch.begin(job).number for job in jobs}

    def news(self, share: Iterable[Job], *, fresh: bool = False) -> Iterator[Progress]:
        """Levels that have been finished since the last look; `fresh` also makes sure on a network file system."""
        for job in self.left(share):
            folder = chain_folder(self._store, job.chain.spec).path
            if fresh and folder.is_dir():
                list(folder.iterdir())  # opening a folder makes NFS forget what it knew of the names in it
            for level in self._watch.news(job):
                if level.ended:
                    self.close(job)
                yield level

    def footprints(self, share: Iterable[Job]) -> tuple[Footprint, ...]:
        """How far every chain of a share has come."""
        return footprints(share, self._store)

    def close(self, job: Job) -> None:
        """Look at a chain no more."""
        self._open.discard(job.number)

    def left(self, share: Iterable[Job]) -> Share:
        """The chains of a share that are still looked at."""
        return tuple(job for job in share if job.number in self._open)

    @property
    def open(self) -> Share:
        """The chains that are still looked at."""
        return self.left(self._jobs.values())

    def of(self, digests: Iterable[str]) -> Share:
        """The chains with these digests that this sweep has."""
        return tuple(self._jobs[digest] for digest in digests if digest in self._jobs)

    def ended(self) -> Share:
        """Chains that are at their end, though a kill has left something to tidy up."""
        return tuple(job for job in self.open if self._has_ended(job))

    def _has_ended(self, job: Job) -> bool:
        try:
            return bool(why_ended(chain_folder(self._store, job.chain.spec).records(), job.chain.rules))
        except PrunecastError:
            return False

    def held(self, share: Iterable[Job]) -> Share:
        """Chains that some process works on right now."""
        return tuple(
            job for job in share if is_locked(chain_folder(self._store, job.chain.spec).path / "lock")
        )

"""The job arrays of a store: written down before they are submitted, so that whoever comes later finds them.

slurm/<driver>/lock                held by the driver as long as it lives
slurm/<driver>/<number>/array.json     the name of an array and the digests of its chains
slurm/<driver>/<number>/...            what submitit writes for it, its logs, its workers' words
"""

import contextlib
import fcntl
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import make_folder, read_json, write_json
from prunecast.sweep.events import Share
from prunecast.sweep.status import is_locked

FOLDER = "slurm"
LEDGER = "array.json"


@dataclass(frozen=True, kw_only=True)
class Array:
    """A job array, or a job that is alone."""

    folder: Path
    name: str
    """The name that its jobs have in the queue; no other array has it."""
    shares: tuple[tuple[str, ...], ...]
    """The digests of the chains of every element."""
    own: bool
    """Whether this driver answers for it, because it submitted it or because the one that did is dead."""


@contextlib.contextmanager
def driver_folder(store: Path) -> Iterator[Path]:
    """A folder of this driver's own, locked as long as it lives; removed at the end unless something is left."""
    folder = store / FOLDER / uuid.uuid4().hex[:8]
    make_folder(folder)
    try:
        file = (folder / "lock").open("a")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as failure:
        raise StoreError(
            f"Cannot lock {folder}: {failure.strerror}; give --store a folder that can."
        ) from failure
    with file:
        try:
            yield folder
        finally:
            _remove_if_empty(folder)


def written(driver: Path, number: int, shares: Sequence[Share]) -> Array:
    """Write an array down; it is submitted afterwards, under this name."""
    folder, name = driver / str(number), f"prunecast-{driver.name}-{number}"
    digests = tuple(tuple(job.chain.spec.digest for job in share) for share in shares)
    make_folder(folder)
    write_json(folder / LEDGER, {"format": 1, "name": name, "shares": digests})
    return Array(folder=folder, name=name, shares=digests, own=True)


def earlier_arrays(store: Path, driver: Path) -> list[Array]:
    """What other drivers wrote down in this store, the living and the dead."""
    others = [folder for folder in sorted((store / FOLDER).glob("*/")) if folder != driver]
    return [array for folder in others for array in _arrays(folder, dead=not is_locked(folder / "lock"))]


def _arrays(driver: Path, *, dead: bool) -> Iterator[Array]:
    for path in sorted(driver.glob(f"*/{LEDGER}")):
        try:
            body = read_json(path)
            shares = tuple(tuple(digests) for digests in body["shares"])
            yield Array(folder=path.parent, name=body["name"], shares=shares, own=dead)
        except (
            PrunecastError,
            KeyError,
        ):  # removed a moment ago by whoever owns it, or damaged: then unknown
            continue


def remove(array: Array) -> None:
    """Delete an array's folder, and a dead driver's own with its last one; the chains are elsewhere."""
    shutil.rmtree(array.folder, ignore_errors=True)
    if not is_locked(array.folder.parent / "lock"):
        _remove_if_empty(array.folder.parent)


def remove_forgotten(arrays: Sequence[Array], queued: set[str]) -> None:
    """Delete the arrays of dead drivers that have left the queue, and their folders once nothing is in them."""
    for array in arrays:
        if array.own and array.name not in queued:
            remove(array)


def _remove_if_empty(driver: Path) -> None:
    if not any(driver.glob("*/")):
        shutil.rmtree(driver, ignore_errors=True)


def last_words(array: Array, job: str) -> str:
    """The last line that a job has said, if it could write at all."""
    for kind in ("err", "out"):
        path = array.folder / f"{job}_0_log.{kind}"
        lines = path.read_text(errors="replace").split("\n") if path.exists() else []
        for line in reversed(lines):
            if line.strip():
                return " ".join(line.split())
    return ""


def has_log(array: Array, job: str) -> bool:
    """Whether the node of a job could write into the array's folder."""
    return any((array.folder / f"{job}_0_log.{kind}").exists() for kind in ("err", "out"))

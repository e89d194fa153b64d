"""Decoded datasets on disk: written aside, synced and renamed, then memory-mapped by every run.

One entry is a folder `<name>-<key>` with the images and labels of both halves as .npy files, `about.json`,
`classes.json` where the classes have names, `split.json` where prunecast split the images, and `about.sha256`.
The key is a digest of the names, sizes and times of the files it was made from, so a dataset that changes is decoded
anew.

Every process verifies an entry before it first uses it. The digest in `about.json` covers the images and labels,
and `about.sha256` covers the .json files. A damaged entry is made again from the dataset's files, which gives
the same digest.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import IO

import numpy as np

from prunecast.data.dataset import BLOCK, Half, Halves, Split, content_digest, described
from prunecast.errors import PrunecastError
from prunecast.files import replace_file, sync

FORMAT = 1
CLASSES = "classes.json"
"""The file of an entry that holds the names of the classes, if they have names."""
SPLIT = "split.json"
"""The file of an entry that says how prunecast split the images, if it did."""
STALE_SECONDS = 86400
ABOUT, CHECKSUM = "about.json", "about.sha256"

_verified: dict[Path, tuple[tuple[int, int, int], ...]] = {}
"""The entries that this process has verified, with the identity of their files."""


class DamagedEntryError(Exception):
    """A cache entry is not what was written; the message says how it differs."""


def cache_folder() -> Path:
    """Return $PRUNECAST_CACHE, else prunecast in $XDG_CACHE_HOME or ~/.cache."""
    given = os.environ.get("PRUNECAST_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "prunecast"


def key(reader: str, base: Path, files: Iterable[str]) -> str:
    """Return a digest of how files are read and of their names below `base`, sizes and modification times."""
    digest = hashlib.sha256(f"{FORMAT} {reader}\n".encode())
    for name in files:
        place = base / name
        try:
            known = place.stat()
        except OSError as missing:
            raise PrunecastError(
                f"{place} cannot be read ({missing.strerror}); repair or remove it."
            ) from missing
        if not stat.S_ISREG(known.st_mode):
            raise PrunecastError(f"{place} is not a regular file; remove it.")
        about = f"{name}\0{known.st_size} {known.st_mtime_ns}\n"
        digest.update(about.encode(errors="surrogateescape"))
    return digest.hexdigest()[:24]


def cached(name: str, entry_key: str, write: Callable[[Path], int]) -> Halves:
    """Return an entry; `write(folder)` makes it: it writes the four parts and returns the number of classes."""
    folder = cache_folder()
    entry = folder / f"{name}-{entry_key}"
    if os.path.lexists(entry):
        with suppress(DamagedEntryError):
            return _open(entry)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f".{entry.name}.lock"):
            _remove_damaged(entry)
            if not entry.exists():
                _make(entry, write)
    except OSError as refused:
        remedy = "free space there or set PRUNECAST_CACHE to another folder"
        raise PrunecastError(f"cannot write the cache {folder} ({refused}); {remedy}.") from refused
    try:
        return _open(entry)
    except DamagedEntryError as damage:  # written a moment ago, so the disk itself is at fault
        remedy = "set PRUNECAST_CACHE to a folder on another disk"
        raise PrunecastError(f"{entry} differs from what was written there ({damage}); {remedy}.") from damage


def save(folder: Path, part: str, half: Half) -> None:
    """Write one half, `train` or `test`, into an entry that is being made."""
    np.save(folder / f"{part}_images.npy", half.images)
    np.save(folder / f"{part}_labels.npy", half.labels)


def reserve(path: Path) -> None:
    """Claim the space of a file that has only its length, or raise OSError if the disk is too full.

    Writing to a memory-mapped file without space kills the process.
    """
    with path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except (AttributeError, OSError) as refused:  # not every system and file system can
            if getattr(refused, "errno", None) not in (None, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
            _fill(file, size)


def _fill(file: IO[bytes], size: int) -> None:
    """Rewrite a file as it is, so that its holes take space."""
    for start in range(0, size, BLOCK):
        file.seek(start)
        block = file.read(BLOCK)
        file.seek(start)
        file.write(block)
    file.flush()
    os.fsync(file.fileno())


def save_classes(folder: Path, names: Iterable[str]) -> None:
    """Write the names of the classes into an entry that is being made."""
    (folder / CLASSES).write_text(json.dumps(list(names)), encoding="utf-8")


def save_split(folder: Path, split: Split) -> None:
    """Write how the images were split into an entry that is being made."""
    (folder / SPLIT).write_text(json.dumps(asdict(split)), encoding="utf-8")


def _make(entry: Path, write: Callable[[Path], int]) -> None:
    _remove_stale(entry.parent)
    aside = Path(mkdtemp(prefix=".partial-", dir=entry.parent))
    try:
        num_classes = write(aside)
        made = described(_half(aside, "train"), _half(aside, "test"), num_classes)
        (aside / ABOUT).write_text(json.dumps(_about(made)))
        (aside / CHECKSUM).write_bytes(_checksum(aside))
        aside.chmod(0o755)  # mkdtemp makes it private, but a cache may be shared
        for path in (*aside.iterdir(), aside):
            sync(path)
        aside.rename(entry)
        sync(entry.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_damaged(entry: Path) -> None:
    """Remove an entry that is damaged, unless another process has just made it again."""
    if not os.path.lexists(entry):
        return
    try:
        _open(entry)
    except DamagedEntryError as damage:
        try:
            aside = Path(mkdtemp(prefix=".partial-", dir=entry.parent))
            entry.rename(aside / entry.name)
        except OSError as refused:
            problem = (
                f"the cache entry {entry} is damaged ({damage}) and cannot be replaced ({refused.strerror})"
            )
            raise PrunecastError(f"{problem}; delete it.") from refused
        shutil.rmtree(aside, ignore_errors=True)
        warnings.warn(f"The cache entry {entry} was damaged ({damage}) and is being rebuilt.", stacklevel=2)


def _open(entry: Path) -> Halves:
    """Map an entry; the first time in this process, verify it."""
    try:
        halves = _mapped(entry)
        files = tuple(_identity(file) for file in sorted(entry.iterdir()) if file.name != CHECKSUM)
        if _verified.get(entry) != files:
            _verify(entry, halves)
            _verified[entry] = files
    except DamagedEntryError:
        raise
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as missing:
        raise DamagedEntryError(f"{missing.filename}: {missing.strerror}") from missing
    except OSError as refused:
        remedy = "make it readable or set PRUNECAST_CACHE to another folder"
        problem = f"the cache entry {entry} cannot be read ({refused.strerror or refused})"
        raise PrunecastError(f"{problem}; {remedy}.") from refused
    except Exception as broken:  # damaged files raise nearly anything
        raise DamagedEntryError(str(broken) or type(broken).__name__) from broken
    return halves


def _mapped(entry: Path) -> Halves:
    about = json.loads((entry / ABOUT).read_bytes())
    names = entry / CLASSES  # older entries, and datasets without names, have none
    classes = tuple(json.loads(names.read_bytes())) if names.exists() else ()
    made = entry / SPLIT
    split = Split(**json.loads(made.read_bytes())) if made.exists() else None
    train, test = (_half(entry, part) for part in ("train", "test"))
    return Halves(train=train, test=test, class_names=classes, split=split, **about)


def _verify(entry: Path, halves: Halves) -> None:
    """Compare an entry with its checksums; one written before there was `about.sha256` gets it now."""
    sealed = (entry / CHECKSUM).exists()
    if sealed and (entry / CHECKSUM).read_bytes() != _checksum(entry):
        raise DamagedEntryError(f"{ABOUT}, {CLASSES} or {SPLIT} has changed")
    if content_digest(halves.train, halves.test) != halves.digest:
        raise DamagedEntryError("its images or labels have changed")
    if not sealed:
        made = described(halves.train, halves.test, halves.num_classes)
        largest = max(int(half.labels.max()) for half in (halves.train, halves.test))
        if _about(made) != _about(halves) or not largest < halves.num_classes:
            raise DamagedEntryError(f"{ABOUT} has changed")
        with suppress(OSError):  # the cache may belong to another user
            replace_file(entry / CHECKSUM, _checksum(entry))


def _about(halves: Halves) -> dict[str, object]:
    return {name: getattr(halves, name) for name in ("num_classes", "mean", "std", "digest")}


def _checksum(entry: Path) -> bytes:
    """Return the digest of the facts about an entry, the names of its classes and its split included."""
    facts = [(entry / name).read_bytes() for name in (ABOUT, CLASSES, SPLIT) if (entry / name).exists()]
    return hashlib.sha256(b"\n".join(facts)).hexdigest().encode()


def _identity(file: Path) -> tuple[int, int, int]:
    known = file.stat()
    return known.st_ino, known.st_size, known.st_mtime_ns


def _half(entry: Path, part: str) -> Half:
    """Memory-map one half; mode "c" lets torch share the pages, and nothing is ever written back."""
    images = np.load(entry / f"{part}_images.npy", mmap_mode="c")
    return Half(images=images, labels=np.load(entry / f"{part}_labels.npy"))


def _remove_stale(folder: Path) -> None:
    """Remove what killed runs left behind, one day after their last write."""
    for left in folder.glob(".partial-*"):
        with suppress(FileNotFoundError):  # another process may have removed or renamed it
            if left.stat().st_mtime < time.time() - STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Let one process at a time make an entry; the lock of a killed process is released."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

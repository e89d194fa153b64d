"""Decoded datasets on disk: written aside, synced and renamed, then memory-mapped by every run.

One entry is a folder `<name>-<key>` with the images and labels of both halves as .npy files and
`about.json`. The key is a digest of the names, sizes and times of the files it was made from, so
a dataset that changes is decoded anew.
"""

import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from prunecast.data.dataset import Half, Halves, described
from prunecast.errors import PrunecastError

FORMAT = 1
STALE_SECONDS = 86400


def cache_folder() -> Path:
    """Return $PRUNECAST_CACHE, else prunecast in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("PRUNECAST_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(base) / "prunecast"


def key(reader: str, base: Path, files: Iterable[str]) -> str:
    """Return a digest of how files are read and of their names below `base`, sizes and modification times."""
    digest = hashlib.sha256(f"{FORMAT} {reader}\n".encode())
    for name in files:
        place = base / name
        try:
            known = place.stat()
        except OSError as missing:
            raise PrunecastError(
                f"{place} cannot be read ({missing.strerror}); mend or remove it."
            ) from missing
        digest.update(f"{name}\0{known.st_size} {known.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:24]


def cached(name: str, entry_key: str, write: Callable[[Path], int]) -> Halves:
    """Return an entry; `write(folder)` makes it: it writes the four parts and returns the number of classes."""
    folder = cache_folder()
    entry = folder / f"{name}-{entry_key}"
    if not entry.exists():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _alone(folder / f".{entry.name}.lock"):
                if not entry.exists():
                    _make(entry, write)
        except OSError as refused:
            remedy = "free space there or set PRUNECAST_CACHE to another folder"
            raise PrunecastError(f"cannot write the cache {folder} ({refused}); {remedy}.") from refused
    return _open(entry)


def save(folder: Path, part: str, half: Half) -> None:
    """Write one half, `train` or `test`, into an entry that is being made."""
    np.save(folder / f"{part}_images.npy", half.images)
    np.save(folder / f"{part}_labels.npy", half.labels)


def _make(entry: Path, write: Callable[[Path], int]) -> None:
    _remove_stale(entry.parent)
    aside = Path(mkdtemp(prefix=".partial-", dir=entry.parent))
    try:
        num_classes = write(aside)
        made = described(_half(aside, "train"), _half(aside, "test"), num_classes)
        about = {name: getattr(made, name) for name in ("num_classes", "mean", "std", "digest")}
        (aside / "about.json").write_text(json.dumps(about))
        aside.chmod(0o755)  # mkdtemp makes it private, but a cache may be shared
        for path in (*aside.iterdir(), aside):
            _sync(path)
        aside.rename(entry)
        _sync(entry.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _open(entry: Path) -> Halves:
    about = json.loads((entry / "about.json").read_text())
    return Halves(train=_half(entry, "train"), test=_half(entry, "test"), **about)


def _half(entry: Path, part: str) -> Half:
    """Memory-map one half; mode "c" lets torch share the pages, and nothing is ever written back."""
    images = np.load(entry / f"{part}_images.npy", mmap_mode="c")
    return Half(images=images, labels=np.load(entry / f"{part}_labels.npy"))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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

"""Checks before a worker begins: it has the driver's code, and sees the driver's store and locks."""

import contextlib
import fcntl
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from prunecast.errors import PrunecastError, StoreError
from prunecast.pruning import code_version, make_folder

NAME = "store-id"
PATIENCE = 5.0
"""Seconds that a new file may take to reach another node."""


@contextlib.contextmanager
def identified(store: Path) -> Iterator[str]:
    """The store's identity, written once; it stays locked, so that workers can check that they see locks."""
    path = store / NAME
    make_folder(store)
    with _held(path) as file:
        yield file.read().strip()


def _held(path: Path) -> TextIO:
    try:
        _write_once(path)
        file = path.open()
        fcntl.flock(file, fcntl.LOCK_SH)
    except OSError as failure:
        raise StoreError(f"Cannot write {path}: {failure.strerror}; make the store writable.") from failure
    return file


def _write_once(path: Path) -> None:
    """Write an identity if there is none. A link appears whole, and only one of two drivers can make it."""
    if path.exists():
        return
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    temporary.write_text(f"{uuid.uuid4().hex}\n")
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)
    temporary.unlink()


def check_store(store: Path, identity: str, *, held: bool = True) -> None:
    """Refuse a store that is not the driver's, or whose lock is not seen while the driver holds it (`held`)."""
    path, host = store / NAME, socket.gethostname()
    _await(path, identity)
    if not held:
        return
    with _writable(path, host) as file:  # NFS gives an exclusive lock to writers only
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        except OSError:
            pass
    raise PrunecastError(
        f"{host} does not see locks that other nodes hold in {store}, so two of them could train one chain; "
        "mount it with shared locks (flock on Lustre, no local_lock on NFS)."
    )


def _writable(path: Path, host: str) -> TextIO:
    try:
        return path.open("r+")
    except OSError as failure:
        problem = f"{host} cannot write to {path}: {failure.strerror}; make the store writable there."
        raise StoreError(problem) from failure


def _await(path: Path, identity: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while (found := _read(path)) != identity:
        if time.monotonic() > deadline:
            what = "is a different folder there" if found else "is not there"
            raise PrunecastError(
                f"{socket.gethostname()} does not see the store {path.parent}: it {what}; "
                "every node must see the store, so give --store a path on a shared file system."
            )
        time.sleep(0.1)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def check_code(driver: str) -> None:
    """Refuse other code than the driver's `code_version`: one table would mix the results of both."""
    if code_version() != driver:
        raise PrunecastError(
            f"{socket.gethostname()} has prunecast {code_version()}, but the driver has {driver}; "
            "install the same version on every node."
        )

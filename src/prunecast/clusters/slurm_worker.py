"""What an element of a job array does on its node: its share of the chains, until the end or a signal."""

import contextlib
import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from prunecast.clusters.seen import check_code, check_store_seen
from prunecast.clusters.shares import work_share
from prunecast.errors import PrunecastError
from prunecast.pruning import read_json, write_json
from prunecast.sweep.events import Busy, Failed, Share

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""What Slurm sends before it kills: at pre-emption and cancelling the first, before a time limit one of the others."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """An element of an array, with all that it needs to know."""

    folder: Path
    """The folder of its array."""
    index: int
    share: Share
    store: Path
    device: str
    mark: str
    """The identity of the store, as the driver sees it."""
    code: str
    """The driver's version."""
    modules: tuple[str, ...]
    """Where the driver finds modules; a user's own family may lie there."""


@dataclass(frozen=True, kw_only=True)
class Began:
    """A worker's first words."""

    node: str
    locks: str
    """Why it seems that the driver's locks are not seen here; empty where they are."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A worker's last words; one that was killed has none."""

    failed: tuple[str, ...] = ()
    """Digests of chains that raised; why is in the store."""
    busy: tuple[str, ...] = ()
    """Digests of chains that another process worked on."""
    refused: str = ""
    """Why nothing can be done on this node."""
    stopped: str = ""
    """The signal that ended it before its share was at its end."""


class Stopped(BaseException):
    """Slurm wants the node back; whatever lies between is left as after a kill, but at once."""


def work_task(task: Task) -> None:
    """Do a task and write down how it ended; levels go into the store as everywhere."""
    for number in SIGNALS:
        signal.signal(number, _stop)
    _path(task.folder, task.index, Done).unlink(missing_ok=True)
    try:
        done = _worked(task)
    except Stopped as stop:
        done = Done(stopped=str(stop))
    except PrunecastError as problem:  # a store that cannot be seen or written, or a device that is not there
        done = Done(refused=str(problem))
    _ignore()
    _write(task, done)


def _ignore() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _worked(task: Task) -> Done:
    _begin(task)
    failed: list[str] = []
    busy: list[str] = []
    with contextlib.closing(work_share(task.share, task.store, task.device)) as outcomes:  # type: ignore[type-var]
        for outcome in outcomes:
            digest = outcome.chain.spec.digest
            failed += [digest] if isinstance(outcome, Failed) else []
            busy += [digest] if isinstance(outcome, Busy) else []
    return Done(failed=tuple(failed), busy=tuple(busy))


def _begin(task: Task) -> None:
    """Make sure of the store and of the code; the driver judges about locks, for only it knows that it lives."""
    torch.set_num_threads(1)
    sys.path += [folder for folder in task.modules if folder not in sys.path]
    check_store_seen(task.store, task.mark, held=False)
    check_code(task.code)
    node = os.environ.get("SLURMD_NODENAME", socket.gethostname())
    _write(task, Began(node=node, locks=_locks(task)))


def _locks(task: Task) -> str:
    """Why the driver's lock is not seen from here, if it is not."""
    try:
        check_store_seen(task.store, task.mark)
    except PrunecastError as problem:
        return str(problem)
    return ""


def _stop(number: int, _: FrameType | None) -> None:
    _ignore()  # Slurm may send several, and what is stored on the way out must not be broken off
    raise Stopped(signal.Signals(number).name)


def began(folder: Path, index: int) -> Began | None:
    """A worker's first words, if it has come so far."""
    body = _read(_path(folder, index, Began))
    return None if body is None else Began(node=body["node"], locks=body["locks"])


def done(folder: Path, index: int) -> Done | None:
    """A worker's last words, if it had any."""
    body = _read(_path(folder, index, Done))
    if body is None:
        return None
    failed, busy = tuple(body["failed"]), tuple(body["busy"])
    return Done(failed=failed, busy=busy, refused=body["refused"], stopped=body["stopped"])


def _path(folder: Path, index: int, kind: type[Began] | type[Done]) -> Path:
    return folder / f"{kind.__name__.lower()}-{index}.json"


def _write(task: Task, words: Began | Done) -> None:
    write_json(_path(task.folder, task.index, type(words)), vars(words))


def _read(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.exists() else None

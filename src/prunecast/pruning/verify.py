"""Verify a store: every file of every chain is read, and all of them must agree. Nothing is written."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from prunecast.errors import PrunecastError, UnreadableError
from prunecast.pruning.files import read_json, read_tensors
from prunecast.pruning.record import Record
from prunecast.pruning.starts import start_file
from prunecast.pruning.store import ChainFolder, check_kept, older_records, read_packed

NEXT_RUN_REPLACES = ("failure.json", "worker.json", "checkpoint.safetensors")
"""Files that can be deleted: only the training since the last level is lost, if anything."""
FaultKind = Literal["damaged", "unreadable"]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Something that is wrong with a chain's files."""

    chain: str
    """The chain's digest."""
    kind: FaultKind
    text: str
    """Which file, what is wrong with it, and what to do."""


@dataclass(frozen=True, kw_only=True)
class StoreCheck:
    """The contents of a store and its faults."""

    store: Path
    chains: int
    levels: int
    """Finished levels that can be read."""
    files: int
    """Files of chains."""
    faults: tuple[Fault, ...]


def verify_store(store: Path) -> StoreCheck:
    """Read every file of a store, also while a sweep works on it."""
    folders = [ChainFolder(path=path) for path in _chains(store)]
    faults: list[Fault] = []
    levels = files = 0
    for folder in folders:
        found = _faults(folder)
        if found:  # a worker may have finished a level meanwhile; a real fault is found again
            again = _faults(folder)
            faults += [fault for fault in found if fault in again]
        levels += len(_records(folder))
        files += sum(path.is_file() for path in folder.path.glob("*") if path.name != "lock")
    return StoreCheck(store=store, chains=len(folders), levels=levels, files=files, faults=tuple(faults))


def _chains(store: Path) -> list[Path]:
    try:
        found = sorted(path for path in (store / "chains").iterdir() if path.is_dir())
    except FileNotFoundError:
        found = []
    except OSError as failure:
        raise PrunecastError(
            f"{store} cannot be read ({failure.strerror}); give the folder that `prunecast run --store` wrote."
        ) from failure
    if not found:
        raise PrunecastError(f"{store} holds no chains; give the folder that `prunecast run --store` wrote.")
    return found


def _records(folder: ChainFolder) -> list[Record]:
    try:
        return folder.records()
    except PrunecastError:
        return []


def _faults(folder: ChainFolder) -> list[Fault]:
    """Everything that is wrong with a chain, each fault once."""
    faults: list[Fault] = []
    for check in _checks(folder):
        try:
            check()
        except PrunecastError as problem:
            kind: FaultKind = "unreadable" if isinstance(problem, UnreadableError) else "damaged"
            fault = Fault(chain=folder.path.name, kind=kind, text=str(problem))
            if fault not in faults:
                faults.append(fault)
    return faults


def _checks(folder: ChainFolder) -> Iterator[Callable[[], object]]:
    """The checks of a chain; each raises an error that says what is wrong."""
    names = {path.name for path in folder.path.glob("*")}
    if names & {"records.json", "rewind.safetensors", "spec.json"}:
        yield folder.spec
        yield partial(_check_start, folder)
    yield folder.records
    records = _records(folder)
    readable = "records.json" not in names or bool(records)
    if readable:
        yield partial(folder.check_age, len(records))
    for level in _levels(names, "mask"):
        yield partial(_check_masks, folder, level, records)
    for kind, path_of in (("start", folder.start), ("weights", folder.weights)):
        for level in _levels(names, kind):
            yield partial(folder.tensors_of, path_of(level), level)
    if "rewind.safetensors" in names:
        yield partial(_check_rewind, folder, len(records) if readable else None)
    for name in NEXT_RUN_REPLACES:
        if name in names:
            yield partial(_check_replaceable, folder, folder.path / name)


def _levels(names: set[str], kind: str) -> list[int]:
    """The levels that have a file of this kind."""
    numbers = [
        name.removeprefix(f"{kind}-").removesuffix(".safetensors")
        for name in names
        if name.startswith(f"{kind}-")
    ]
    return sorted(int(number) for number in numbers if number.isdecimal())


def _check_masks(folder: ChainFolder, level: int, records: list[Record]) -> None:
    """Read the masks of a level, and count the weights that they keep."""
    masks = folder.masks(level)
    following = records[level - 1].following if 0 < level <= len(records) else None
    if following is not None:
        check_kept(folder.mask(level), masks, following.nonzero)


def _check_start(folder: ChainFolder) -> None:
    """Read the file of weights that a chain starts from, if it has one."""
    start = folder.spec()[0].start
    if start is not None:
        read_tensors(start_file(folder.path.parent.parent, start))


def _check_rewind(folder: ChainFolder, done: int | None) -> None:
    """Read the rewind point with the masks of its level; that of level 0 has none, so only its checksum is checked."""
    level = folder.tensors(folder.rewind)[1]
    if done is not None and level > done:
        raise older_records(folder.rewind, level, done)
    if level:
        full = {name: torch.ones_like(mask) for name, mask in folder.masks(level).items()}
        read_packed(folder.rewind, folder, full)


def _check_replaceable(folder: ChainFolder, path: Path) -> None:
    try:
        if path.suffix == ".json":
            read_json(path)
        else:
            folder.tensors(path)
    except UnreadableError:
        raise
    except PrunecastError as problem:
        lost = "the level in progress starts again" if path == folder.checkpoint else "nothing is lost"
        raise PrunecastError(
            f"{path} is damaged. Delete it, or let the next run replace it; {lost}."
        ) from problem

"""The store: a folder with one folder per chain, named by the digest of its spec.

    chains/<digest>/
        spec.json                  spec, versions of code and format, environment, digest of the data
        records.json               one record per finished level: the table's rows
        mask-007.safetensors       the masks of level 7, bit-packed (level 0 keeps everything)
        rewind.safetensors         the network at the rewind point, at surviving positions
        start-008.safetensors      the network that level 8 starts from, where it is not the rewound one
        weights-007.safetensors    the trained network of level 7, if asked for
        checkpoint.safetensors     the training in progress, removed when its level is finished
        lock                       held by the process that works on this chain
        worker.json                that process, its host, and how many processes died while they held the chain
    starts/<digest>.safetensors    weights that chains start from, of a file with this digest

A level counts as finished when records.json names it; that file is replaced last. Every file but spec.json names the
chain that it belongs to (files of older versions do not), so that one copied into another chain's folder is refused.
"""

import dataclasses
import fcntl
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunecast.errors import BusyError, DamagedError, PrunecastError, StoreError, UnreadableError
from prunecast.files import TEMPORARY, is_there, open_at_once, remove_temporary_files
from prunecast.pruning.files import (
    damaged,
    is_whole,
    make_folder,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from prunecast.pruning.holder import recorded_holder
from prunecast.pruning.masks import Masks, count_kept
from prunecast.pruning.record import Record, StopRules, records_from, why_ended
from prunecast.spec import ChainSpec, as_dict, from_dict
from prunecast.text import plural

LOG = logging.getLogger(__name__)
FORMAT = 1
RECORDS = "records.json"
MOST_LEVELS = 9999
DAMAGED = -1
"""The level of a checkpoint that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class ChainFolder:
    """The files of one chain."""

    path: Path

    @property
    def rewind(self) -> Path:
        """The network at the rewind point."""
        return self.path / "rewind.safetensors"

    @property
    def checkpoint(self) -> Path:
        """The training in progress."""
        return self.path / "checkpoint.safetensors"

    def start(self, level: int) -> Path:
        """The network that a level starts from."""
        return self.path / f"start-{level:03d}.safetensors"

    def weights(self, level: int) -> Path:
        """The network that a level ended with."""
        return self.path / f"weights-{level:03d}.safetensors"

    def mask(self, level: int) -> Path:
        """The masks of a level."""
        return self.path / f"mask-{level:03d}.safetensors"

    @contextmanager
    def locked(self, *, weight: float = 1) -> Iterator[None]:
        """Hold the chain's lock; the kernel releases it when the process ends, however it ends.

        Raises a BusyError if another process holds it, and a DeathsError if too many workers died on the chain without
        progress; the death of the last one counts `weight`.
        """
        make_folder(self.path)
        try:
            file = os.fdopen(open_at_once(self.path / "lock", os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a")
        except OSError as failure:
            raise StoreError(
                f"Cannot write to {self.path}: {failure.strerror}; make the store writable."
            ) from failure
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as failure:
                raise BusyError(
                    f"Another process is working on the chain in {self.path}; wait until it ends, or stop it."
                ) from failure
            remove_temporary_files(self.path)
            with recorded_holder(self.path, weight=weight):
                yield

    def records(self) -> list[Record]:
        """The finished levels."""
        path = self.path / RECORDS
        if not is_there(path):
            return []
        body = _understood(path)
        self._check_owner(path, body)
        try:
            return records_from(body.get("levels"))
        except ValueError as failure:
            raise damaged(path, str(failure)) from failure

    def write_records(self, records: Sequence[Record]) -> None:
        """Replace the list of finished levels; a level is finished once it is in this list."""
        levels = [dataclasses.asdict(record) for record in records]
        write_json(self.path / RECORDS, {"format": FORMAT, "spec": self.path.name, "levels": levels})

    @contextmanager
    def taken(self, rules: StopRules) -> Iterator[list[Record]]:
        """Hold the chain and return its finished levels; a chain that has ended and is tidy needs no lock."""
        records = self.records()
        if why_ended(records, rules) and not self.stale(len(records)):
            yield records
            return
        with self.locked():
            yield self.take_up()

    def take_up(self) -> list[Record]:
        """Prepare the chain for its next level: check its files, remove old ones, return the finished levels.

        Call it only while holding the lock.
        """
        records = self.records()
        self.check_age(len(records))
        self.tidy(len(records))
        return records

    def check_age(self, done: int) -> None:
        """Refuse records that are older than the other files: training would continue from different weights.

        With `done` finished levels, a killed process may have left files of the next one and masks of the one after.
        """
        for kind, latest in (("mask", done + 1), ("start", done + 1), ("weights", done)):
            for path in sorted(self.path.glob(f"{kind}-*.safetensors")):
                number = path.stem.removeprefix(f"{kind}-")
                if number.isdecimal() and int(number) > latest:
                    raise older_records(path, int(number), done)

    def stale(self, done: int) -> list[Path]:
        """Files that a killed process left behind and nobody needs, a damaged checkpoint among them."""
        try:
            return self._stale(done, self._begun())
        except UnreadableError:  # the process that continues the chain reports it
            return self._stale(done, None)

    def tidy(self, done: int) -> None:
        """Remove what `done` finished levels no longer need; call it only while holding the lock."""
        begun = self._begun()
        if begun is not None and begun > done:
            raise older_records(self.checkpoint, begun, done)
        if begun == DAMAGED:
            LOG.warning("%s is damaged, so its level starts again.", self.checkpoint)
        for path in self._stale(done, begun):
            try:
                path.unlink(missing_ok=True)
            except OSError as failure:
                raise StoreError(
                    f"Cannot remove {path}: {failure.strerror}; remove it yourself."
                ) from failure

    def _stale(self, done: int, begun: int | None) -> list[Path]:
        old = [path for path in self.path.glob("start-*.safetensors") if path < self.start(done)]
        old += self.path.glob(f".*{TEMPORARY}")
        return old if begun is None or begun >= done else [self.checkpoint, *old]

    def _begun(self) -> int | None:
        """The level of the checkpoint, `DAMAGED` if it cannot be read, None if there is none."""
        try:
            return self.tensors(self.checkpoint)[1] if is_there(self.checkpoint) else None
        except DamagedError:
            return DAMAGED

    def tensors(self, path: Path) -> tuple[dict[str, Tensor], int, dict[str, Any]]:
        """The tensors of one of the chain's files, the level it belongs to, and its notes."""
        tensors, notes = read_tensors(path)
        self._check_owner(path, notes)
        level = notes.get("level")
        if not (is_whole(level) and level <= MOST_LEVELS):
            raise damaged(path, "it does not say to which level it belongs")
        return tensors, level, notes

    def tensors_of(self, path: Path, level: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The tensors and notes of a file that must belong to a level."""
        tensors, found, notes = self.tensors(path)
        if found != level:
            raise damaged(path, f"it belongs to level {found}")
        return tensors, notes

    def _check_owner(self, path: Path, notes: Mapping[str, Any]) -> None:
        owner = notes.get("spec", self.path.name)
        if owner != self.path.name:
            raise damaged(path, f"it belongs to the chain {owner}")

    def write_masks(self, level: int, masks: Mapping[str, Tensor]) -> None:
        """Store the masks of a level, eight weights per byte."""
        packed = {name: torch.from_numpy(np.packbits(mask.numpy())) for name, mask in masks.items()}
        shapes = {name: list(mask.shape) for name, mask in masks.items()}
        write_tensors(self.mask(level), packed, {**self.notes(level), "shapes": shapes})

    def notes(self, level: int) -> dict[str, Any]:
        """The notes that every file of tensors has: its format, level and chain."""
        return {"format": FORMAT, "level": level, "spec": self.path.name}

    def masks(self, level: int) -> Masks:
        """Read the masks of a level above 0."""
        path = self.mask(level)
        packed, notes = self.tensors_of(path, level)
        shapes = notes.get("shapes")
        if not isinstance(shapes, dict) or shapes.keys() != packed.keys():
            raise damaged(path, "it does not say what shapes its masks have")
        try:
            return {name: _unpacked(packed[name], shape) for name, shape in shapes.items()}
        except (ValueError, TypeError, RuntimeError) as failure:
            raise damaged(path, "its masks do not have the shapes that it names") from failure

    def network(self, level: int, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The trained network of a level whose weights were kept; `like` has its names and shapes."""
        path = self.weights(level)
        network, _ = self.tensors_of(path, level)
        check_shapes(path, network, like)
        return network

    def spec(self) -> tuple[ChainSpec, dict[str, Any]]:
        """The chain's spec, and everything else in its file."""
        path = self.path / "spec.json"
        body = _understood(path)
        try:
            spec = from_dict(body["spec"])
        except (KeyError, TypeError, ValueError, AttributeError) as failure:
            raise damaged(path, "it holds no spec") from failure
        except PrunecastError as failure:
            raise PrunecastError(f"{path}: {failure}") from failure
        if spec.digest != self.path.name:
            raise damaged(path, f"it belongs to the chain {spec.digest}")
        if not isinstance(body.get("data"), str) or not isinstance(body.get("environment"), dict):
            raise damaged(path, "it does not say on which data and where the chain was trained")
        if not _names(body.get("prunable", [])):
            raise damaged(path, "it does not name the tensors to prune")
        return spec, body

    def write_spec(self, spec: ChainSpec, about: Mapping[str, Any]) -> None:
        """Write the spec, unless there is one: a chain that is continued elsewhere keeps the first."""
        path = self.path / "spec.json"
        if not is_there(path):
            make_folder(self.path)
            write_json(path, {"format": FORMAT, "spec": as_dict(spec), **about})


def _names(value: object) -> bool:
    """Whether a value read from JSON is a list of names."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def chain_folder(store: Path, spec: ChainSpec) -> ChainFolder:
    """The folder of a chain, which may not exist yet."""
    return ChainFolder(path=store / "chains" / spec.digest)


def chain_folders(store: Path) -> list[ChainFolder]:
    """Every chain in a store that has a spec."""
    return [ChainFolder(path=path.parent) for path in sorted((store / "chains").glob("*/spec.json"))]


def _understood(path: Path) -> dict[str, Any]:
    body = read_json(path)
    if not isinstance(body.get("format"), int) or body["format"] > FORMAT:
        raise PrunecastError(
            f"{path} has format {body.get('format')!r}; this prunecast reads up to {FORMAT}: upgrade prunecast."
        )
    return body


def older_records(path: Path, level: int, done: int) -> DamagedError:
    """The error for records that were put back from an older copy."""
    return DamagedError(
        f"{path.parent / RECORDS} lists {plural(done, 'finished level')}, but {path.name} in the same folder belongs "
        f"to level {level}: the records are older, and training would continue from the wrong weights. Restore all "
        "files of the folder from one copy, or delete it to train that chain again from the start; other chains are "
        "not affected."
    )


def check_shapes(path: Path, found: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> None:
    """Refuse tensors of a file that do not have the names and shapes of the chain's network."""
    if {name: tensor.shape for name, tensor in found.items()} != {
        name: tensor.shape for name, tensor in like.items()
    }:
        raise damaged(path, "its tensors are not those of this chain's network")


def check_kept(path: Path, masks: Masks, nonzero: int) -> None:
    """Refuse masks of a file that do not keep as many weights as the records say."""
    if count_kept(masks) != nonzero:
        raise damaged(path, f"it keeps {count_kept(masks):,} weights, but records.json says {nonzero:,}")


def _unpacked(packed: Tensor, shape: list[int]) -> Tensor:
    count = math.prod(shape)
    if packed.dtype != torch.uint8 or packed.shape != ((count + 7) // 8,) or not all(map(is_whole, shape)):
        raise ValueError("a different number of bytes")
    return torch.from_numpy(np.unpackbits(packed.numpy(), count=count).astype(bool)).reshape(shape)


def write_packed(path: Path, network: Mapping[str, Tensor], masks: Masks, level: int) -> None:
    """Store the weights that `level`'s masks keep, in order, and all other tensors completely."""
    packed = {name: tensor[masks[name]] if name in masks else tensor for name, tensor in network.items()}
    write_tensors(path, packed, ChainFolder(path=path.parent).notes(level))


def read_packed(path: Path, folder: ChainFolder, full: Masks) -> dict[str, Tensor]:
    """Read a network that `write_packed` wrote; pruned weights are zero. `full` are the masks of level 0."""
    packed, level, _ = folder.tensors(path)
    masks = folder.masks(level) if level else full
    check_shapes(folder.mask(level), masks, full)
    if not all(name in packed and packed[name].shape == (int(masks[name].sum()),) for name in masks):
        raise damaged(path, f"it does not hold the weights that the masks of level {level} keep")
    return {
        name: _scattered(tensor, masks[name]) if name in masks else tensor for name, tensor in packed.items()
    }


def _scattered(values: Tensor, mask: Tensor) -> Tensor:
    whole = torch.zeros(mask.shape, dtype=values.dtype)
    whole[mask] = values
    return whole


def environment() -> dict[str, str]:
    """The versions and the machine, on which numbers can depend besides the spec."""
    import platform

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
    }

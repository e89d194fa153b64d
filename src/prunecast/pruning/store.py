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

A level counts as finished when records.json names it; that file is replaced last.
"""

import dataclasses
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunecast.errors import BusyError, PrunecastError, StoreError
from prunecast.files import remove_temporary_files
from prunecast.pruning.files import (
    damaged,
    make_folder,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from prunecast.pruning.holder import signed
from prunecast.pruning.masks import Masks
from prunecast.pruning.record import Pruned, Record
from prunecast.spec import ChainSpec, as_dict, from_dict

LOG = logging.getLogger(__name__)
FORMAT = 1
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
        """Hold the chain for this process; the kernel lets go when the process ends, however it ends.

        Raises a BusyError where another process holds it, and a DeathsError where too many workers died over it
        without progress; `weight` is what the death of the last one counts.
        """
        make_folder(self.path)
        try:
            file = (self.path / "lock").open("a")
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
            with signed(self.path, weight=weight):
                yield

    def records(self) -> list[Record]:
        """The finished levels."""
        path = self.path / "records.json"
        if not path.exists():
            return []
        body = _understood(path)
        try:
            return [_record(level) for level in body["levels"]]
        except (KeyError, TypeError) as failure:
            raise damaged(path, "a record lacks a field") from failure

    def write_records(self, records: Sequence[Record]) -> None:
        """Replace the list of finished levels; a level is finished once it is in this list."""
        levels = [dataclasses.asdict(record) for record in records]
        write_json(self.path / "records.json", {"format": FORMAT, "levels": levels})

    def stale(self, done: int) -> list[Path]:
        """Files that only finished levels needed and a killed process left, and a damaged checkpoint."""
        return self._stale(done, self._begun())

    def tidy(self, done: int) -> None:
        """Remove what `done` finished levels no longer need; call it only while holding the lock."""
        begun = self._begun()
        if begun == DAMAGED:
            LOG.warning("%s is damaged, so its level begins anew.", self.checkpoint)
        for path in self._stale(done, begun):
            path.unlink(missing_ok=True)

    def _stale(self, done: int, begun: int | None) -> list[Path]:
        starts = [path for path in self.path.glob("start-*.safetensors") if path < self.start(done)]
        return starts if begun is None or begun >= done else [self.checkpoint, *starts]

    def _begun(self) -> int | None:
        """The level of the checkpoint, if there is one; a damaged one costs only the time since the level began."""
        try:
            return int(read_tensors(self.checkpoint)[1]["level"]) if self.checkpoint.exists() else None
        except PrunecastError:
            return DAMAGED

    def write_masks(self, level: int, masks: Mapping[str, Tensor]) -> None:
        """Store the masks of a level, eight weights per byte."""
        packed = {name: torch.from_numpy(np.packbits(mask.numpy())) for name, mask in masks.items()}
        shapes = {name: list(mask.shape) for name, mask in masks.items()}
        write_tensors(self.mask(level), packed, {"format": FORMAT, "level": level, "shapes": shapes})

    def masks(self, level: int) -> Masks:
        """Read the masks of a level above 0."""
        packed, notes = read_tensors(self.mask(level))
        return {name: _unpacked(packed[name], shape) for name, shape in notes["shapes"].items()}

    def spec(self) -> tuple[ChainSpec, dict[str, Any]]:
        """The chain's spec, and everything else in its file."""
        body = _understood(self.path / "spec.json")
        return from_dict(body["spec"]), body

    def write_spec(self, spec: ChainSpec, about: Mapping[str, Any]) -> None:
        """Write the spec, unless there is one: a chain that is continued elsewhere keeps the first."""
        path = self.path / "spec.json"
        if not path.exists():
            make_folder(self.path)
            write_json(path, {"format": FORMAT, "spec": as_dict(spec), **about})


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
            f"{path} has format {body.get('format')!r}; this prunecast reads up to {FORMAT}: upgrade it."
        )
    return body


def _record(values: dict[str, Any]) -> Record:
    following = values.get("following")
    return Record(**{**values, "following": None if following is None else Pruned(**following)})


def _unpacked(packed: Tensor, shape: list[int]) -> Tensor:
    count = int(np.prod(shape))
    return torch.from_numpy(np.unpackbits(packed.numpy(), count=count).astype(bool)).reshape(shape)


def write_packed(path: Path, network: Mapping[str, Tensor], masks: Masks, level: int) -> None:
    """Store the weights that `level`'s masks keep, in order, and all other tensors completely."""
    packed = {name: tensor[masks[name]] if name in masks else tensor for name, tensor in network.items()}
    write_tensors(path, packed, {"format": FORMAT, "level": level})


def read_packed(path: Path, folder: ChainFolder, full: Masks) -> dict[str, Tensor]:
    """Read a network that `write_packed` wrote; pruned weights are zero. `full` are the masks of level 0."""
    packed, notes = read_tensors(path)
    masks = folder.masks(notes["level"]) if notes["level"] else full
    return {
        name: _scattered(tensor, masks[name]) if name in masks else tensor for name, tensor in packed.items()
    }


def packed_level(path: Path) -> int:
    """The level whose masks a packed file was written with."""
    level: int = read_tensors(path)[1]["level"]
    return level


def _scattered(values: Tensor, mask: Tensor) -> Tensor:
    whole = torch.zeros(mask.shape, dtype=values.dtype)
    whole[mask] = values
    return whole


def environment() -> dict[str, str]:
    """What the numbers can depend on besides the spec."""
    import platform

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processors": str(os.cpu_count()),
    }

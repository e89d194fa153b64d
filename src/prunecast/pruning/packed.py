"""A network stored at its surviving positions only."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from prunecast.pruning.files import read_tensors, write_tensors
from prunecast.pruning.masks import Masks
from prunecast.pruning.store import FORMAT, ChainFolder


def write_packed(path: Path, network: Mapping[str, Tensor], masks: Masks, level: int) -> None:
    """Store the surviving weights of `level`'s masks in order, and everything that is never pruned whole."""
    packed = {name: tensor[masks[name]] if name in masks else tensor for name, tensor in network.items()}
    write_tensors(path, packed, {"format": FORMAT, "level": level})


def read_packed(path: Path, folder: ChainFolder, full: Masks) -> dict[str, Tensor]:
    """Read such a network back, zero where it was pruned; `full` are the masks of level 0."""
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

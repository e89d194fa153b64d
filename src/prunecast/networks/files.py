"""The files of a made network, all of them in the safetensors format.

model.safetensors    every parameter and buffer under its name in the module's state dict; pruned weights are zero
mask.safetensors     for each prunable weight a boolean tensor, true where it is kept
sparse.safetensors   the same network without its zeros: for a prunable weight W the kept values in row-major order
                     as W.values, and where they stand as W.bits (a bit a weight, first bit highest, as numpy.packbits
                     writes them) or, where that is smaller, as W.positions (int32); everything else as it is

Each carries its format, the chain's digest and (sparse) the weights' shapes as JSON under `notes` in its metadata.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunecast.errors import PrunecastError
from prunecast.pruning.files import read_tensors, write_tensors

FORMAT = 1
MODEL, MASK, SPARSE = "model.safetensors", "mask.safetensors", "sparse.safetensors"
POSITION_BYTES, WEIGHTS_A_BYTE = 4, 8
Tensors = dict[str, Tensor]


def write_network(
    folder: Path, network: Mapping[str, Tensor], masks: Mapping[str, Tensor], digest: str
) -> None:
    """Write a network three ways; pruned weights become exactly zero."""
    notes = {"format": FORMAT, "spec": digest}
    whole = {
        name: tensor.masked_fill(~masks[name], 0.0) if name in masks else tensor
        for name, tensor in network.items()
    }
    shapes = {name: list(mask.shape) for name, mask in masks.items()}
    write_tensors(folder / MODEL, whole, notes)
    write_tensors(folder / MASK, masks, notes)
    write_tensors(folder / SPARSE, packed(whole, masks), {**notes, "shapes": shapes})


def packed(network: Mapping[str, Tensor], masks: Mapping[str, Tensor]) -> Tensors:
    """The network without its zeros."""
    tensors: Tensors = {}
    for name, tensor in network.items():
        if name not in masks:
            tensors[name] = tensor
            continue
        mask = masks[name]
        tensors[f"{name}.values"] = tensor[mask]
        place, where = _places(mask)
        tensors[f"{name}.{place}"] = where
    return tensors


def _places(mask: Tensor) -> tuple[str, Tensor]:
    """Where kept weights stand, in the way that takes fewer bytes."""
    if POSITION_BYTES * int(mask.sum()) < mask.numel() // WEIGHTS_A_BYTE:
        return "positions", mask.flatten().nonzero().flatten().to(torch.int32)
    return "bits", torch.from_numpy(np.packbits(mask.numpy()))


def unpacked(tensors: Mapping[str, Tensor], shapes: Mapping[str, list[int]]) -> tuple[Tensors, Tensors]:
    """The state dict and the masks that `packed` was given."""
    network: Tensors = {
        name: tensor for name, tensor in tensors.items() if name.rpartition(".")[0] not in shapes
    }
    masks: Tensors = {}
    for name, shape in shapes.items():
        mask = torch.zeros(math.prod(shape), dtype=torch.bool)
        if f"{name}.positions" in tensors:
            mask[tensors[f"{name}.positions"].long()] = True
        else:
            bits = np.unpackbits(tensors[f"{name}.bits"].numpy(), count=mask.numel())
            mask = torch.from_numpy(bits.astype(bool))
        weight = torch.zeros(mask.shape, dtype=tensors[f"{name}.values"].dtype)
        weight[mask] = tensors[f"{name}.values"]
        network[name], masks[name] = weight.reshape(shape), mask.reshape(shape)
    return network, masks


def read_network(folder: Path, digest: str) -> tuple[Tensors, Tensors]:
    """The state dict and the masks, from the dense files if both are there, else from the sparse one."""
    if (folder / MODEL).exists() and (folder / MASK).exists():
        return _read(folder / MODEL, digest)[0], _read(folder / MASK, digest)[0]
    if not (folder / SPARSE).exists():
        raise PrunecastError(
            f"{folder} holds neither {MODEL} with {MASK} nor {SPARSE}: make the network again."
        )
    tensors, notes = _read(folder / SPARSE, digest)
    return unpacked(tensors, notes["shapes"])


def _read(path: Path, digest: str) -> tuple[Tensors, dict[str, Any]]:
    tensors, notes = read_tensors(path)
    if notes.get("format", FORMAT + 1) > FORMAT:
        raise PrunecastError(f"{path} was written by a newer prunecast: upgrade.")
    if notes["spec"] != digest:
        raise PrunecastError(f"{path} is of another network than the card beside it: make the network again.")
    return tensors, notes

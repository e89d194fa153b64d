"""The files of a made network, all of them in the safetensors format, and the network loaded from them.

model.safetensors    every parameter and buffer under its name in the module's state dict; pruned weights are zero
mask.safetensors     for each prunable weight a boolean tensor, true where it is kept
sparse.safetensors   the same network without its zeros: for a prunable weight W the kept values in row-major order
                     as W.values, and their places as W.bits (one bit per weight, first bit highest, as numpy.packbits
                     writes them) or, where that is smaller, as W.positions (int32); everything else as it is

Each carries its format, the chain's digest and (sparse) the weights' shapes as JSON under `notes` in its metadata.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from prunecast import families
from prunecast.errors import PrunecastError, first_line
from prunecast.files import read_file
from prunecast.pruning import read_tensors, write_tensors

CARD = "card.json"
FORMAT = 1
MODEL, MASK, SPARSE = "model.safetensors", "mask.safetensors", "sparse.safetensors"
CONSTANTS = "constants.safetensors"
"""Tensors that the code of a network reads and its state dict lacks; few networks have some."""
PROGRAM, ONNX, TEXT = "model.py", "model.onnx", "README.md"
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
    """The positions of kept weights, in the form that takes fewer bytes."""
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
        raise PrunecastError(f"{path} was written by a newer prunecast: upgrade prunecast.")
    if notes["spec"] != digest:
        raise PrunecastError(
            f"{path} belongs to a different network than the card in its folder: make the network again."
        )
    return tensors, notes


def load_network(folder: str | Path) -> nn.Module:
    """The network that `prunecast make` wrote: its family's module with the pruned weights, ready to classify.

    Args:
        folder: the folder; it needs card.json, and either model.safetensors with mask.safetensors or
            sparse.safetensors.

    Returns:
        The module in evaluation mode, on the CPU. If whole channels were removed, it is the smaller module.

    Raises:
        PrunecastError: a file is missing or damaged.
    """
    card = read_card(Path(folder))
    about = card["network"]
    model = build(about)
    if about.get("units") is not None:
        units = families.find_units(model, tuple(about["image_shape"]))
        model = units.sliced(model, units.first(about["units"]))
    return filled(model, Path(folder), card["training"]["spec"])


def build(about: Mapping[str, Any]) -> nn.Module:
    """The unpruned network of a family, depth, width, number of classes and shape of images."""
    return families.build(
        about["family"],
        depth=about["depth"],
        width=as_given(about["width"]),
        num_classes=about["num_classes"],
        image_shape=tuple(about["image_shape"]),
    )


def as_given(width: float) -> float:
    """A whole width as an integer, as plans give it; a family may use it as a number of channels."""
    return int(width) if float(width).is_integer() else width


def filled(model: nn.Module, folder: Path, digest: str) -> nn.Module:
    """The module with the weights of a folder's files, ready to classify."""
    try:
        model.load_state_dict(read_network(folder, digest)[0])
    except RuntimeError as failure:
        raise PrunecastError(
            f"the weights in {folder} do not fit their family as it is now ({first_line(failure)})"
        ) from failure
    return model.eval()


def load_masks(folder: str | Path) -> dict[str, Tensor]:
    """Which prunable weights were kept.

    Args:
        folder: the folder that `prunecast make` wrote.

    Returns:
        A boolean tensor of each weight's shape, by its name in the state dict; true where the weight was kept.

    Raises:
        PrunecastError: a file is missing or damaged.
    """
    return read_network(Path(folder), read_card(Path(folder))["training"]["spec"])[1]


def read_card(folder: Path) -> dict[str, Any]:
    """The card of a made network."""
    path = folder / CARD
    try:
        card: dict[str, Any] = json.loads(read_file(path))
        version = card["format"]
    except FileNotFoundError:
        raise PrunecastError(f"there is no {path}: give the folder that `prunecast make -o` wrote") from None
    except (ValueError, KeyError, TypeError, RecursionError) as failure:
        raise PrunecastError(f"{path} cannot be read: make the network again") from failure
    if version > FORMAT:
        raise PrunecastError(f"{path} was written by a newer prunecast: upgrade prunecast")
    return card

"""One packed convolution with its norm as the fused step sees it, or why it has no kernel for it."""

import numpy as np
import torch
from torch import nn

from prunecast.fleet.fused.program import TILE, Convolution, Unfused
from prunecast.fleet.layout import Blocks

Tiles = tuple[tuple[int, int], ...]
SIZES = (4, 8, 16, 32, 64)
"""Heights and widths the kernels are made for."""


def fused_convolution(
    *,
    name: str,
    module: nn.Conv2d,
    norm_name: str,
    norm: nn.BatchNorm2d,
    blocks: Blocks,
    source: int,
    in_size: int,
) -> Convolution:
    """Describe a convolution and its norm; `blocks` are those of the packed weight."""
    _refuse_unusual(name, module)
    out_size = in_size // module.stride[0]
    if out_size not in SIZES:
        raise Unfused(
            f"Module {name!r} (Conv2d) makes images of {out_size}x{out_size}, and fused are {SIZES} alone."
        )
    tiles = weight_tiles(blocks)
    _refuse_gaps(name, module, tiles)
    return Convolution(
        name=name,
        norm=norm_name,
        source=source,
        kernel=module.kernel_size[0],
        stride=module.stride[0],
        in_channels=module.in_channels,
        out_channels=module.out_channels,
        in_size=in_size,
        out_size=out_size,
        groups=module.groups,
        tiles=tiles,
        eps=norm.eps,
        momentum=_momentum(norm_name, norm),
    )


def weight_tiles(blocks: Blocks) -> Tiles:
    """Every (tile of outputs, tile of inputs) in which some slot has a weight, sorted.

    Columns of a grouped weight are counted within the group of their row; tiles are counted without groups.
    """
    outputs, columns = blocks.shape[0], blocks.shape[1]
    used = np.zeros((outputs // TILE, columns * blocks.groups // TILE), dtype=bool)
    for row_index, column_index in (index[:2] for index in blocks.members):
        rows = _places(row_index, outputs).reshape(-1, 1)
        inputs = _places(column_index, columns) + rows // (outputs // blocks.groups) * columns
        used[rows // TILE, inputs // TILE] = True
    return tuple((int(output), int(source)) for output, source in np.argwhere(used))


def _places(index: slice | torch.Tensor, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.arange(size)[index] if isinstance(index, slice) else index.numpy()


def _refuse_unusual(name: str, module: nn.Conv2d) -> None:
    kernel = module.kernel_size[0]
    known: dict[str, tuple[object, list[object]]] = {
        "kernel_size": (module.kernel_size, [(1, 1), (3, 3)]),
        "stride": (module.stride, [(1, 1), (2, 2)]),
        "dilation": (module.dilation, [(1, 1)]),
        "padding": (module.padding, [(kernel // 2, kernel // 2)]),
        "padding_mode": (module.padding_mode, ["zeros"]),
        "bias": (module.bias is not None, [False]),
    }
    for setting, (value, allowed) in known.items():
        if value not in allowed:
            raise Unfused(
                f"Module {name!r} (Conv2d) has {setting} {value}, for which there is no fused kernel."
            )
    for what, channels in (("inputs", module.in_channels), ("outputs", module.out_channels)):
        if channels % TILE or channels // module.groups % TILE:
            groups = "" if module.groups == 1 else f" in {module.groups} groups"
            raise Unfused(
                f"Module {name!r} (Conv2d) has {channels} {what}{groups}, which are not multiples of {TILE}."
            )


def _refuse_gaps(name: str, module: nn.Conv2d, tiles: Tiles) -> None:
    """Kernels go from tile to tile of what they write, forwards and backwards, and each has work there."""
    outputs, inputs = {output for output, _ in tiles}, {source for _, source in tiles}
    if len(outputs) * TILE < module.out_channels or len(inputs) * TILE < module.in_channels:
        raise Unfused(f"Module {name!r} (Conv2d) has {TILE} channels in a row that belong to no slot.")


def _momentum(name: str, norm: nn.BatchNorm2d) -> float:
    if not norm.affine or not norm.track_running_stats or norm.momentum is None:
        raise Unfused(f"Module {name!r} (BatchNorm2d) lacks weights, statistics or a momentum of its own.")
    return norm.momentum

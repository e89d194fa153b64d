"""Translates the traced graph of a packed network into the program that the kernels run."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast.fleet.kernels.program import TILE, Convolution, Program, Unfused, Value
from prunecast.fleet.layout import Blocks
from prunecast.fleet.pack import Pack

RECTIFIERS = frozenset({torch.relu, torch.relu_, F.relu, "relu", "relu_"})
IN_PLACE = frozenset({operator.iadd, "add_"})
ADDITIONS = frozenset({operator.add, torch.add, "add"}) | IN_PLACE
MEANS = frozenset({torch.mean, "mean"})
Tiles = tuple[tuple[int, int], ...]
SIZES = (4, 8, 16, 32, 64)
"""Heights and widths that the kernels support."""


def lower(pack: Pack, image_shape: Sequence[int]) -> Program:
    """Translate a pack whose slots take images of this (channels, height, width), the shape it was made with.

    Raises `Unfused` for the first module or operation that has no kernel.
    """
    channels, height, width = image_shape
    if not isinstance(pack.module, fx.GraphModule):
        raise Unfused("A network that cannot be packed is not fused.")
    if set(pack.layout.inputs.counts()) != {channels}:
        raise Unfused(f"The pack takes images of {pack.layout.inputs.counts()[0]} channels, not {channels}.")
    if height != width or height not in SIZES:
        raise Unfused(f"Images of {height}x{width} are not fused: only squares with a side in {SIZES} are.")
    if pack.layout.inputs.size % TILE:
        raise Unfused(
            f"The packed images have {pack.layout.inputs.size} channels, which is not a multiple of {TILE}."
        )
    reader = _Reader(pack=pack, modules=dict(pack.module.named_modules()), image_size=height)
    for node in pack.module.graph.nodes:
        reader.visit(node)
    return reader.program()


@dataclass(frozen=True, kw_only=True)
class _Item:
    """The result of a node: its kind, its number within the kind, and the name of the node in messages."""

    kind: str
    number: int
    maker: str


@dataclass(kw_only=True)
class _Reader:
    """Visits the nodes of a graph in order and collects convolutions, values and the head."""

    pack: Pack
    modules: dict[str, nn.Module]
    image_size: int
    items: dict[fx.Node, _Item] = field(default_factory=dict)
    read: set[_Item] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    bare: list[tuple[str, nn.Conv2d, int]] = field(default_factory=list)
    """Convolutions before their norms are known: name, module and source."""
    convolutions: list[Convolution] = field(default_factory=list)
    sums: list[Value] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    heads: list[tuple[str, nn.Linear, int]] = field(default_factory=list)
    """Linear modules, and the value whose mean they read."""

    def visit(self, node: fx.Node) -> None:
        """Translate one node, after all nodes before it."""
        if node.op == "placeholder":
            self.values.append(Value(convolution=None))
            self._give(node, "value", 0)
        elif node.op == "call_module":
            self._module(node, self.modules[str(node.target)])
        elif node.op in ("call_function", "call_method"):
            self._operation(node)
        elif node.op == "output":
            self._take(node, node.args[0], "scores of slots")
        else:
            raise Unfused(f"{self._say(node)} is outside the layers that are fused.")

    def program(self) -> Program:
        """Return the program, or refuse it if a result has no reader."""
        for item in self.items.values():
            if item not in self.read:
                raise Unfused(f"{item.maker} is not read by any layer, so it cannot be fused.")
        ((name, head, final),) = self.heads
        return Program(
            convolutions=tuple(self.convolutions),
            values=tuple(self.values),
            final=final,
            head=name,
            members=_owned(name, self.pack.layout.blocks[f"{name}.weight"]),
            classes=head.out_features // self.pack.slots,
            image_channels=self.pack.layout.inputs.size,
            image_size=self.image_size,
        )

    def _module(self, node: fx.Node, module: nn.Module) -> None:
        if isinstance(module, nn.Identity):
            self.items[node] = self._find(node, _argument(node, 0, "input"))
        elif isinstance(module, nn.ReLU):
            self._rectify(node)
        elif isinstance(module, nn.AdaptiveAvgPool2d):
            self._pool(node, module.output_size)
        elif isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear):
            self._layer(node, str(node.target), module)
        else:
            raise Unfused(f"{self._say(node)} is not among the layers that are fused.")

    def _layer(self, node: fx.Node, name: str, module: nn.Conv2d | nn.BatchNorm2d | nn.Linear) -> None:
        if name in self.called:
            raise Unfused(f"{self._say(node)} is used twice; fused steps use a layer once.")
        self.called.add(name)
        if isinstance(module, nn.Conv2d):
            self.bare.append((name, module, self._take(node, _argument(node, 0, "input"), "value").number))
            self._give(node, "convolution", len(self.bare) - 1)
        elif isinstance(module, nn.BatchNorm2d):
            self._norm(node, name, module)
        elif module.bias is None:
            raise Unfused(f"{self._say(node)} has no bias, but the head of a fused network needs one.")
        else:
            self.heads.append((name, module, self._take(node, _argument(node, 0, "input"), "mean").number))
            self._give(node, "scores", len(self.heads) - 1)

    def _norm(self, node: fx.Node, norm_name: str, norm: nn.BatchNorm2d) -> None:
        name, module, source = self.bare[self._take(node, _argument(node, 0, "input"), "convolution").number]
        maker = self.values[source].convolution
        self.convolutions.append(
            fused_convolution(
                name=name,
                module=module,
                norm_name=norm_name,
                norm=norm,
                blocks=self.pack.layout.blocks[f"{name}.weight"],
                source=source,
                in_size=self.image_size if maker is None else self.convolutions[maker].out_size,
            )
        )
        self._give(node, "norm", len(self.convolutions) - 1)

    def _operation(self, node: fx.Node) -> None:
        target: Any = node.target
        if target in RECTIFIERS:
            self._rectify(node)
        elif target in ADDITIONS:
            self._add(node)
        elif target in MEANS:
            self._mean(node)
        elif target is F.adaptive_avg_pool2d:
            self._pool(node, _argument(node, 1, "output_size"))
        elif target is torch.flatten and self._find(node, node.args[0]).kind == "mean":
            self.items[node] = self._find(node, node.args[0])
        elif target == "unflatten":
            self._unflatten(node)
        else:
            raise Unfused(f"{self._say(node)} is not among the operations that are fused.")

    def _rectify(self, node: fx.Node) -> None:
        source = self._take(node, _argument(node, 0, "input"), "norm", "sum")
        is_sum = source.kind == "sum"
        self.values.append(self.sums[source.number] if is_sum else Value(convolution=source.number))
        self._give(node, "value", len(self.values) - 1)

    def _add(self, node: fx.Node) -> None:
        """Translate a sum of two norms, or of a norm and a value in either order."""
        if len(node.args) != 2 or node.kwargs:
            raise Unfused(f"{self._say(node)} is not a sum of two activations.")
        first, second = (self._take(node, source, "norm", "value") for source in node.args)
        if first.kind == "value" and node.target in IN_PLACE:
            raise Unfused(
                f"{self._say(node)} changes the output of {first.maker} in place, which other layers also read."
            )
        if first.kind == "value":
            first, second = second, first
        if first.kind == "value" or (second.kind == "value" and second.number == 0):
            raise Unfused(
                f"{self._say(node)} adds other things than a norm and a norm or a value after a ReLU."
            )
        role = "other" if second.kind == "value" else "shortcut"
        self.sums.append(Value(convolution=first.number, **{role: second.number}))
        self._give(node, "sum", len(self.sums) - 1)

    def _mean(self, node: fx.Node) -> None:
        axes = _argument(node, 1, "dim")
        listed = axes if isinstance(axes, tuple | list) else (axes,)
        if {axis % 4 for axis in listed} != {2, 3} or set(node.kwargs) - {"input", "dim", "keepdim"}:
            raise Unfused(f"{self._say(node)} is a mean over axes other than height and width.")
        self._average(node)

    def _pool(self, node: fx.Node, output_size: Any) -> None:
        if output_size not in (1, (1, 1), [1, 1]):
            raise Unfused(
                f"{self._say(node)} pools to {output_size}; only the mean over the whole image is fused."
            )
        self._average(node)

    def _average(self, node: fx.Node) -> None:
        source = self._take(node, _argument(node, 0, "input"), "value")
        if source.number == 0:
            raise Unfused(f"{self._say(node)} averages the images themselves.")
        self._give(node, "mean", source.number)

    def _unflatten(self, node: fx.Node) -> None:
        scores = self._take(node, node.args[0], "scores")
        classes = self.heads[scores.number][1].out_features // self.pack.slots
        if node.args[1:] != (1, (self.pack.slots, classes)):
            raise Unfused(f"{self._say(node)} does not return the scores slot by slot.")
        self._give(node, "scores of slots", 0)

    def _find(self, node: fx.Node, source: Any) -> _Item:
        if not isinstance(source, fx.Node):
            raise Unfused(f"{self._say(node)} reads {source!r}, which is not an activation.")
        return self.items[source]

    def _take(self, node: fx.Node, source: Any, *kinds: str) -> _Item:
        """Return the input of a node, which must be of these kinds; only a value may have several readers."""
        item = self._find(node, source)
        if item.kind not in kinds:
            raise Unfused(
                f"{self._say(node)} reads a {item.kind} ({item.maker}); fused steps need a {' or '.join(kinds)} there."
            )
        if item.kind != "value" and item in self.read:
            raise Unfused(
                f"{self._say(node)} reads {item.maker} again; only values after a ReLU may have several readers."
            )
        self.read.add(item)
        return item

    def _give(self, node: fx.Node, kind: str, number: int) -> None:
        self.items[node] = _Item(kind=kind, number=number, maker=self._say(node))

    def _say(self, node: fx.Node) -> str:
        if node.op == "call_module":
            return f"Module {node.target!r} ({type(self.modules[str(node.target)]).__name__})"
        if node.op in ("call_function", "call_method"):
            target: Any = node.target
            return f"Operation {getattr(target, '__name__', str(target))!r} (node {node.name})"
        return f"The {node.op} {node.target!r}"


def _argument(node: fx.Node, place: int, name: str) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name)


def _owned(name: str, blocks: Blocks) -> tuple[tuple[int, int], ...]:
    """Return the first channel of every slot in the rows that the head reads, and its number of channels."""
    classes, owned = blocks.shape[0] // len(blocks.members), []
    for slot, (rows, columns) in enumerate(blocks.members):
        plain = rows == slice(slot * classes, (slot + 1) * classes)
        if not isinstance(columns, slice) or not plain:
            raise Unfused(f"Module {name!r} (Linear) has channels of slot {slot} that are not contiguous.")
        owned.append((columns.start, columns.stop - columns.start))
    return tuple(owned)


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
            f"Module {name!r} (Conv2d) makes images of {out_size}x{out_size}; only sides in {SIZES} are fused."
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
    """Return every (tile of outputs, tile of inputs) in which some slot has a weight, sorted.

    Columns of a grouped weight are counted within the group of their row; tiles are counted without groups.
    """
    outputs, columns = blocks.shape[0], blocks.shape[1]
    used = np.zeros((outputs // TILE, columns * blocks.groups // TILE), dtype=bool)
    for row_index, column_index in (index[:2] for index in blocks.members):
        rows = _places(row_index, outputs).reshape(-1, 1)
        inputs = _places(column_index, columns) + rows // (outputs // blocks.groups) * columns
        used[rows // TILE, inputs // TILE] = True
    return tuple((int(output), int(source)) for output, source in np.argwhere(used))


def _places(index: slice | torch.Tensor | int, size: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    if isinstance(index, int):
        return np.array([index])
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
    """Refuse tiles without weights: the kernels need at least one weight for each tile that they write."""
    outputs, inputs = {output for output, _ in tiles}, {source for _, source in tiles}
    if len(outputs) * TILE < module.out_channels or len(inputs) * TILE < module.in_channels:
        raise Unfused(f"Module {name!r} (Conv2d) has {TILE} channels in a row that belong to no slot.")


def _momentum(name: str, norm: nn.BatchNorm2d) -> float:
    if not norm.affine or not norm.track_running_stats or norm.momentum is None:
        raise Unfused(f"Module {name!r} (BatchNorm2d) lacks weights, statistics or a momentum of its own.")
    return norm.momentum

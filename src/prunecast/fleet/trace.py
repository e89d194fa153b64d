"""Traces a family into a graph and finds which channels of each activation belong to which member."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import fx, nn

from prunecast import families
from prunecast.families import (
    CONCATENATIONS,
    DROPOUTS,
    FLATTENING,
    OVER_SPACE,
    POINTWISE,
    POOLING,
    Traced,
    named_axis,
    operation_name,
    signature,
)
from prunecast.fleet.layers import LAYERS, PER_CHANNEL_MODULES
from prunecast.fleet.layout import Blocks, Layout, Unpackable, concatenated, flattened, side_by_side

SIZES = frozenset({"size", getattr})


def trace(model: nn.Module, image_shape: Sequence[int]) -> Traced:
    """Trace a network, or raise `Unpackable` with the reason why it cannot be packed."""
    refuse_shared_parameters(model)
    try:
        return families.trace(model, image_shape)
    except families.UntraceableError as problem:
        raise Unpackable(f"{problem}.") from problem


def refuse_shared_parameters(model: nn.Module) -> None:
    """Refuse a parameter with two names; it would become two parameters in a pack."""
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        first = names.setdefault(id(parameter), name)
        if first != name:
            raise Unpackable(
                f"Parameters {first!r} and {name!r} are one tensor, so the family cannot be packed."
            )


@dataclass(frozen=True, kw_only=True)
class PackPlan:
    """A packed network without weights: its graph, its modules on the meta device, and the blocks of its tensors."""

    graph: fx.Graph
    modules: dict[str, nn.Module]
    blocks: dict[str, Blocks]
    inputs: Layout
    outputs: Layout


def follow(members: Sequence[Traced], *, multiple: int, smallest_group: int | None) -> PackPlan:
    """Walk through the common graph once and find the layout of every activation."""
    first = members[0]
    for other in members[1:]:
        if other is not first and signature(other.graph) != signature(first.graph):
            raise Unpackable("The networks of a pack differ in more than the number of channels.")
    walk = _Walk(members=members, multiple=multiple, smallest_group=smallest_group)
    for node in first.graph.nodes:
        walk.visit(node)
    return PackPlan(
        graph=walk.graph,
        modules=walk.modules,
        blocks=walk.blocks,
        inputs=walk.inputs[0],
        outputs=walk.outputs[0],
    )


@dataclass(kw_only=True)
class _Walk:
    members: Sequence[Traced]
    multiple: int
    smallest_group: int | None
    graph: fx.Graph = field(default_factory=fx.Graph)
    copies: dict[fx.Node, fx.Node] = field(default_factory=dict)
    layouts: dict[fx.Node, Layout] = field(default_factory=dict)
    modules: dict[str, nn.Module] = field(default_factory=dict)
    blocks: dict[str, Blocks] = field(default_factory=dict)
    read_by: dict[str, Layout] = field(default_factory=dict)
    inputs: list[Layout] = field(default_factory=list)
    outputs: list[Layout] = field(default_factory=list)

    def visit(self, node: fx.Node) -> None:
        """Copy one node into the packed graph, and find the layout of its output."""
        if node.op == "output":
            self._output(node)
        elif node.op == "placeholder":
            self._input(node)
        elif node.op == "call_module":
            self._module(node)
        elif node.op in ("call_function", "call_method"):
            self._operation(node)
        else:
            raise Unpackable(
                f"The forward pass uses the tensor {node.target!r} outside a layer the packer knows."
            )

    def _input(self, node: fx.Node) -> None:
        if self.inputs:
            raise Unpackable(
                f"The forward pass takes a second argument, {node.target!r}; a pack has only images."
            )
        channels = self.members[0].shapes[node.name][1]
        layout = side_by_side([channels] * len(self.members), multiple=self.multiple)
        self.inputs.append(layout)
        self._keep(node, layout)

    def _output(self, node: fx.Node) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node) or source not in self.layouts or self._rank(source) != 2:
            raise Unpackable("The forward pass does not return one row of class scores per image.")
        self.outputs.append(self.layouts[source])
        self.graph.output(self.copies[source])

    def _module(self, node: fx.Node) -> None:
        name = str(node.target)
        modules = [member.modules[name] for member in self.members]
        kind, layout = type(modules[0]), self._common(node)
        _refuse_unusual(name, modules)
        if kind is nn.Flatten:
            self._flatten(node)
        elif kind in (nn.Dropout, nn.Dropout2d):
            self._dropout(node, getattr(modules[0], "p"))  # noqa: B009 - modules are typed without it
        elif kind in PER_CHANNEL_MODULES:
            _refuse_different(name, modules)
            self.modules[name] = copy.deepcopy(modules[0])
            self._keep(node, layout)
        elif kind in LAYERS and self._rank(node.all_input_nodes[0]) == LAYERS[kind].rank:
            self._layer(node, name, modules, layout)
        else:
            raise Unpackable(
                f"Module {name!r} ({kind.__name__}) may mix channels in a way that the packer does not know."
            )

    def _layer(self, node: fx.Node, name: str, modules: list[nn.Module], layout: Layout) -> None:
        if self.read_by.setdefault(name, layout) != layout:
            raise Unpackable(f"Module {name!r} is used in two places that own their channels differently.")
        pack = LAYERS[type(modules[0])].pack
        packed = pack(name, modules, layout, multiple=self.multiple, smallest_group=self.smallest_group)
        self.modules[name] = packed.module
        self.blocks |= {f"{name}.{key}": blocks for key, blocks in packed.blocks.items()}
        self._keep(node, packed.outputs)

    def _operation(self, node: fx.Node) -> None:
        target: Any = node.target
        if self._is_size(node):
            return  # only a flattening may use it, which is replaced
        per_channel = target in POINTWISE or target in POOLING
        if per_channel or (target in OVER_SPACE and self._names_space(node)):
            self._keep(node, self._common(node))
        elif target in CONCATENATIONS and named_axis(node, 1) in (1, 1 - self._rank(node)):
            self._concatenate(node)
        elif target in FLATTENING:
            self._flatten(node)
        elif target in DROPOUTS:
            self._dropout(node, node.kwargs.get("p", node.args[1] if len(node.args) > 1 else 0.5))
        else:
            raise Unpackable(
                f"Operation {operation_name(node)} may mix channels in a way that the packer does not know."
            )

    def _is_size(self, node: fx.Node) -> bool:
        """Whether a node is a shape, or computes with shapes, and so is no activation."""
        from_shapes = not any(source in self.layouts for source in node.all_input_nodes)
        return node.name not in self.members[0].shapes and (from_shapes or node.target in SIZES)

    def _concatenate(self, node: fx.Node) -> None:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        self._keep(node, concatenated([self._argument(node, part) for part in parts]))

    def _flatten(self, node: fx.Node) -> None:
        source = node.all_input_nodes[0]
        layout, shape = self._argument(node, source), self.members[0].shapes[source.name]
        if self.members[0].shapes.get(node.name) != (shape[0], prod(shape[1:])):
            raise Unpackable(
                f"Operation {operation_name(node)} reshapes to something else than one row of features per image."
            )
        self.copies[node] = self.graph.call_function(torch.flatten, (self.copies[source], 1))
        self.layouts[node] = flattened(layout, prod(shape[2:]))

    def _dropout(self, node: fx.Node, p: Any) -> None:
        if p != 0:
            raise Unpackable(
                f"Operation {operation_name(node)} draws its own random numbers, which a pack cannot reproduce."
            )
        source = node.all_input_nodes[0]
        self.copies[node], self.layouts[node] = self.copies[source], self._argument(node, source)

    def _common(self, node: fx.Node) -> Layout:
        """The layout of an operation's inputs, which must all have the same; plain numbers do not matter."""
        layouts = [self._argument(node, source) for source in node.all_input_nodes]
        ranks = {self._rank(source) for source in node.all_input_nodes}
        if any(layout != layouts[0] for layout in layouts) or len(ranks) != 1:
            raise Unpackable(
                f"Operation {operation_name(node)} joins activations whose channels have different owners."
            )
        return layouts[0]

    def _names_space(self, node: fx.Node) -> bool:
        axes = named_axis(node, None)
        listed = axes if isinstance(axes, tuple | list) else (axes,)
        rank = self._rank(node.all_input_nodes[0])
        return axes is not None and all(axis % rank >= 2 for axis in listed)

    def _argument(self, node: fx.Node, source: Any) -> Layout:
        if source not in self.layouts:
            raise Unpackable(f"Operation {operation_name(node)} takes {source}, which is not an activation.")
        return self.layouts[source]

    def _rank(self, node: Any) -> int:
        return len(self.members[0].shapes.get(node.name, ()))

    def _keep(self, node: fx.Node, layout: Layout) -> None:
        if node.name not in self.members[0].shapes:
            raise Unpackable(f"Operation {operation_name(node)} returns more than one tensor.")
        self.copies[node] = self.graph.node_copy(node, lambda source: self.copies[source])
        self.layouts[node] = layout


def _refuse_unusual(name: str, modules: Sequence[nn.Module]) -> None:
    for module in modules:
        if type(module) is not type(modules[0]):
            raise Unpackable(f"Module {name!r} is of different types in the networks of a pack.")
        if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
            raise Unpackable(f"Module {name!r} has hooks, which a pack would lose.")


def _refuse_different(name: str, modules: Sequence[nn.Module]) -> None:
    if any(module.extra_repr() != modules[0].extra_repr() for module in modules):
        raise Unpackable(f"Module {name!r} has different settings in the networks of a pack.")

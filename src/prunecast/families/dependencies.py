"""Which channels of a network belong together, read off its graph.

Every output channel of a convolution or linear layer gets a number of its own, and the numbers are followed: a batch
norm or a depthwise convolution hands them on, a sum makes those it adds one, a concatenation lists them one after the
other, a flattening repeats them. Channels with the same number in the end are one unit. What mixes channels in another
way, such as a layer norm, keeps those it reads; so do the image and the logits.
"""

import copy
import functools
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import fx, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by

from prunecast.errors import PrunecastError
from prunecast.families.building import prunable
from prunecast.families.channel_numbers import ChannelNumbers, encoder_layers, tokens_of
from prunecast.families.network import Attention
from prunecast.families.tracing import (
    ACTIVATIONS,
    CONCATENATIONS,
    CONVOLUTIONS,
    DROPOUTS,
    ENCODERS,
    FLATTENING,
    NORMS,
    OTHER_POINTWISE,
    OVER_SPACE,
    POINTWISE,
    RESHAPING,
    SPATIAL,
    SPATIAL_FUNCTIONS,
    SWAPPING,
    TRANSPOSED,
    Traced,
    UntraceableError,
    found_once,
    named_axis,
    operation_name,
    trace,
)
from prunecast.families.units import Integers, Product, Units, all_multiply_adds

NONE: Integers = np.zeros(0, np.int64)

_FOUND: WeakKeyDictionary[nn.Module, Units | str] = WeakKeyDictionary()
"""The units of a network, or a sentence on why there are none."""


def find_units(model: nn.Module, image_shape: Sequence[int]) -> Units:
    """The removable units of an untrained network, found on the first call; a PrunecastError where there are none."""
    return found_once(_FOUND, model, lambda: _find(model, image_shape), PrunecastError)


def _find(model: nn.Module, image_shape: Sequence[int]) -> Units:
    try:
        traced = trace(model, image_shape, leaves=(Attention,))
    except UntraceableError as problem:
        raise PrunecastError(
            f"{problem}, so it is not known which channels belong together; prune single weights, or write the model "
            "without conditions on tensors and their shapes."
        ) from problem
    walk = _Walk(traced=traced, weights=frozenset(prunable(model)))
    for node in traced.graph.nodes:
        walk.visit(node)
    units = walk.numbers.units(model, all_multiply_adds(model, image_shape) or 0)
    if not len(units):
        why = f" ({units.kept_whole[0].layer}: {units.kept_whole[0].reason})" if units.kept_whole else ""
        raise PrunecastError(
            f"{type(model).__name__} has no channels that can be removed{why}; prune single weights instead."
        )
    _try_slicing(units, model, image_shape)
    return units


def _try_slicing(units: Units, model: nn.Module, image_shape: Sequence[int]) -> None:
    """Refuse a network that does not run without the first unit of every group, where that has another."""
    kept = units.everything()
    firsts = np.unique(units.groups, return_index=True)[1]
    kept[[first for first in firsts if (units.groups == units.groups[first]).sum() > 1]] = False
    try:
        small = units.sliced(copy.deepcopy(model).to("meta", torch.float32), kept)
        with torch.no_grad():
            small.eval()(torch.empty(2, *image_shape, device="meta"))
    except Exception as failure:
        raise PrunecastError(
            f"{type(model).__name__} does not run with fewer channels, perhaps because its forward pass contains "
            "their number; compute it from the tensors' shapes instead, or prune single weights."
        ) from failure


@dataclass(frozen=True, kw_only=True)
class _Flow:
    """Where the channels of an activation are, and the number of each."""

    axis: int
    channels: Integers


@dataclass(kw_only=True)
class _Walk:
    """One pass over the graph, with numbers of channels in the place of values."""

    traced: Traced
    weights: frozenset[str]
    numbers: ChannelNumbers = field(default_factory=ChannelNumbers)
    flows: dict[fx.Node, _Flow] = field(default_factory=dict)
    """Activations with removable channels; all others have channels that are fixed."""
    counted: dict[fx.Node, Integers] = field(default_factory=dict)
    """By node that is a number: the channels whose count it depends on."""
    shape_of: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def visit(self, node: fx.Node) -> None:
        """Follow one operation."""
        if node.op == "output":
            self._keep(node, "it computes the output")
        elif node.op in ("placeholder", "get_attr"):
            return
        elif type(self.traced.modules.get(str(node.target))) is nn.MultiheadAttention:
            self._multihead(node)
        elif node.name not in self.traced.shapes:
            self._number(node)
        else:
            found = self._module(node) if node.op == "call_module" else self._operation(node)
            if found is not None:
                self.flows[node] = found

    def _keep(self, node: fx.Node, reason: str) -> None:
        """Never remove a channel that a node reads."""
        for source in node.all_input_nodes:
            self.numbers.keep(self._channels(source), reason)
            self.numbers.keep(self._counted(source), reason)

    def _channels(self, source: fx.Node) -> Integers:
        """The removable channels of an activation."""
        return self.flows[source].channels if source in self.flows else NONE

    def _counted(self, source: fx.Node) -> Integers:
        """The channels whose number a node depends on that is not a tensor."""
        if source in self.shape_of:
            return self._channels(self.shape_of[source])
        return self.counted.get(source, NONE)

    # Modules.

    def _module(self, node: fx.Node) -> _Flow | None:
        name = str(node.target)
        module = self.traced.modules[name]
        flow = self._only_flow(node)
        if self._usual(module):
            if type(module) in ACTIVATIONS:
                return flow
            if type(module) in SPATIAL and (flow is None or flow.axis == 1):
                return flow
            if type(module) is nn.Flatten:
                return self._reshaped(node, flow, literal=False)
            if type(module) in (*NORMS, nn.PReLU) and (flow is None or flow.axis == 1):
                shared = type(module) is nn.PReLU and module.weight.numel() == 1
                if flow is not None and not shared:
                    self.numbers.own_rows(name, module, flow.channels)
                return flow
            if type(module) in ENCODERS:
                self._encoder(name, module, node)
            if type(module) is Attention:
                return self._attention(name, module, node, flow)
            if type(module) in (nn.Linear, *CONVOLUTIONS, *TRANSPOSED):
                return self._layer(name, module, node, flow)
        self._keep(node, f"{type(module).__name__} {name!r} reads all of them together")
        return None

    def _usual(self, module: Any) -> bool:
        """Whether a module does nothing besides what its type says, and shares no tensor."""
        hooked = module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
        own = [parameter for parameter in module._parameters.values() if parameter is not None]
        shared = any(self._holders[id(parameter)] > 1 for parameter in own)
        computed = hasattr(module, "weight") and "weight" not in module._parameters
        return not (hooked or shared or computed)

    @functools.cached_property
    def _holders(self) -> Counter[int]:
        """How many modules hold every parameter."""
        modules = dict.fromkeys(self.traced.modules.values())
        return Counter(
            id(own) for module in modules for own in module._parameters.values() if own is not None
        )

    def _layer(self, name: str, module: Any, node: fx.Node, flow: _Flow | None) -> _Flow | None:
        """A convolution or a linear layer: its columns belong to what it reads, its rows to what it computes."""
        shape, into = self._shape(node), self._shape(node.all_input_nodes[0])
        linear, transposed = isinstance(module, nn.Linear), isinstance(module, TRANSPOSED)
        axis = len(shape) - 1 if linear else 1
        weight = f"{name}.weight"
        positions = shape[1:-1] if linear else (into if transposed else shape)[2:]
        self.numbers.products.append(Product(tensor=weight, times=prod(positions)))
        groups = 1 if linear else module.groups
        understood = flow is None or flow.axis == axis
        depthwise = groups > 1 and not transposed and groups == module.in_channels
        if weight not in self.weights or not understood or (groups > 1 and not depthwise):
            what = "is not prunable" if weight not in self.weights else "has groups of channels"
            self._keep(node, f"the layer {name!r} that reads them {what}")
            return None
        if depthwise:
            if flow is None:
                return None
            channels = np.repeat(flow.channels, module.out_channels // groups)
            self.numbers.own_rows(name, module, channels)
            return _Flow(axis=1, channels=channels)
        reads, writes = (0, 1) if transposed else (1, 0)
        if flow is not None:
            self.numbers.own(weight, reads, flow.channels)
        channels = self.numbers.computed(name, module.weight.shape[writes])
        self.numbers.own(weight, writes, channels)
        if module.bias is not None:
            self.numbers.own(f"{name}.bias", 0, channels)
        return _Flow(axis=axis, channels=channels)

    def _attention(self, name: str, module: Attention, node: fx.Node, flow: _Flow | None) -> _Flow | None:
        """Queries, keys and values of a head go together, as what it computes."""
        _, tokens, size = self._shape(node)
        if flow is None or flow.axis != 2 or name in self.numbers.heads:
            self._keep(node, f"the attention {name!r} reads all of them together")
            flow = None
        channels = np.zeros(size, np.int64)
        if flow is not None:
            heads = flow.channels.reshape(3, module.heads, -1)
            for head in range(module.heads):
                self.numbers.tie(heads[:, head].ravel(), int(heads[0, head, 0]))
            channels, self.numbers.heads[name] = heads[0].ravel(), heads[0, :, 0]
        self.numbers.products.append(Product(channels=channels, times=2 * tokens * tokens))
        return None if flow is None else _Flow(axis=2, channels=channels)

    # Transformer layers of torch, which are single operations of the graph. What goes in and out of them stays.

    def _encoder(self, name: str, module: nn.Module, node: fx.Node) -> None:
        """Hidden units of torch's encoder layers, and heads where no mask is given."""
        shape = self._shape(node)
        for path, layer in encoder_layers(name, module):
            tokens = tokens_of(shape, layer.self_attn)
            if tokens is None or not all(self._usual(part) for part in layer.modules()):
                continue
            activation: Any = layer.activation
            if activation in POINTWISE | OTHER_POINTWISE or type(activation) in ACTIVATIONS:
                self.numbers.own_hidden_units(self.weights, path, layer, tokens)
            if len(node.args) == 1 and not node.kwargs:
                self.numbers.own_heads(self.weights, f"{path}.self_attn", layer.self_attn, tokens)

    def _multihead(self, node: fx.Node) -> None:
        """Heads of self-attention without masks whose attention weights nobody reads."""
        name = str(node.target)
        module: Any = self.traced.modules[name]
        self._keep(node, f"MultiheadAttention {name!r} reads all of them together")
        usual = all(self._usual(part) for part in module.modules())
        alike = len(node.args) == 3 and len(set(node.args)) == 1 and set(node.kwargs) <= {"need_weights"}
        read = {use.args[1] if use.target is operator.getitem else None for use in node.users if use.users}
        tokens = tokens_of(self._shape(node.all_input_nodes[0]), module)
        if usual and alike and read <= {0} and tokens is not None:
            self.numbers.own_heads(self.weights, name, module, tokens)

    # Functions and methods.

    def _operation(self, node: fx.Node) -> _Flow | None:
        target: Any = node.target
        flow = self._only_flow(node)
        if target in FLATTENING and target not in OVER_SPACE:
            return self._reshaped(node, flow, literal=target in RESHAPING)
        if target not in SPATIAL_FUNCTIONS:
            self._keep_counts(node)
        if target in POINTWISE or target in OTHER_POINTWISE or target in DROPOUTS:
            return self._joined(node)
        if target in CONCATENATIONS:
            return self._concatenated(node)
        found = self._moved(node, flow) if flow is not None else None
        if found is None:
            self._keep(node, f"the operation {operation_name(node)} reads all of them together")
        return found

    def _moved(self, node: fx.Node, flow: _Flow) -> _Flow | None:
        """Operations on one activation that leave its channels where they are, or move them to another axis."""
        target: Any = node.target
        rank = len(self._shape(node.all_input_nodes[0]))
        if target in SPATIAL_FUNCTIONS:
            return flow if flow.axis == 1 else None
        if target in OVER_SPACE:
            return self._reduced(node, flow, rank)
        if target in SWAPPING:
            one, other = (int(axis) % rank for axis in node.args[1:3])  # type: ignore[arg-type]
            return _Flow(axis={one: other, other: one}.get(flow.axis, flow.axis), channels=flow.channels)
        if target in (torch.permute, "permute"):
            axes: Any = node.args[1] if isinstance(node.args[1], tuple | list) else node.args[1:]
            return _Flow(axis=[axis % rank for axis in axes].index(flow.axis), channels=flow.channels)
        if target in (torch.unsqueeze, "unsqueeze"):
            added = int(node.args[1]) % (rank + 1)  # type: ignore[arg-type]
            return _Flow(axis=flow.axis + (added <= flow.axis), channels=flow.channels)
        if target is F.pad:
            padding: Any = node.args[1]
            inner = isinstance(padding, tuple | list) and len(padding) // 2 <= rank - 1 - flow.axis
            return flow if inner else None
        return None

    def _reduced(self, node: fx.Node, flow: _Flow, rank: int) -> _Flow | None:
        """A mean, sum or maximum over other axes than that of the channels."""
        axes = named_axis(node, None)
        listed = axes if isinstance(axes, tuple | list) else (axes,)
        if axes is None or not all(isinstance(axis, int) for axis in listed):
            return None
        gone = {axis % rank for axis in listed}
        if flow.axis in gone:
            return None
        keeps = len(self._shape(node)) == rank
        return _Flow(
            axis=flow.axis - (0 if keeps else sum(axis < flow.axis for axis in gone)), channels=flow.channels
        )

    def _reshaped(self, node: fx.Node, flow: _Flow | None, *, literal: bool) -> _Flow | None:
        """Flatten what comes after the channels, with them or without; `literal` if sizes may be given."""
        if flow is None:
            self._keep_counts(node)
            return None
        for source in node.all_input_nodes:
            counted = self.counted.get(source, NONE)
            if len(counted) == len(flow.channels):
                self.numbers.tie(counted, flow.channels)
            else:
                self.numbers.keep(counted, f"the operation {operation_name(node)} uses their number")
        before, after = self._shape(node.all_input_nodes[0]), self._shape(node)
        area = prod(before[2:])
        if flow.axis == 1 and before[0] == after[0] and not (literal and self._names_size(node)):
            if len(after) > 1 and after[1] == before[1] and prod(after[2:]) == area:
                return flow
            if after == (before[0], before[1] * area):
                return _Flow(axis=1, channels=np.repeat(flow.channels, area))
        self._keep(node, f"the operation {operation_name(node)} gives them another shape")
        return None

    def _names_size(self, node: fx.Node) -> bool:
        """Whether the size of the axis of channels is written down as a number."""
        sizes: Any = node.args[1] if isinstance(node.args[1], tuple | list) else node.args[1:]
        return len(sizes) < 2 or (isinstance(sizes[1], int) and sizes[1] != -1)

    def _joined(self, node: fx.Node) -> _Flow | None:
        """Operations element by element: the channels that meet are one."""
        flows = [self.flows[source] for source in node.all_input_nodes if source in self.flows]
        if not flows:
            return None
        rank, size = len(self._shape(node)), self._shape(node)
        found: _Flow | None = None
        for source in node.all_input_nodes:
            if source not in self.flows:
                continue
            flow = self.flows[source]
            axis = flow.axis + rank - len(self._shape(source))
            if len(flow.channels) != size[axis] or (found is not None and found.axis != axis):
                self._keep(node, f"the operation {operation_name(node)} spreads them over others")
                return None
            if found is not None:
                self.numbers.tie(flow.channels, found.channels)
            found = _Flow(axis=axis, channels=flow.channels)
        assert found is not None
        for source in node.all_input_nodes:
            if source.name in self.traced.shapes and source not in self.flows:
                shape = self._shape(source)
                own = found.axis - (rank - len(shape))
                if own >= 0 and shape[own] != 1:
                    self.numbers.keep(
                        found.channels, f"the operation {operation_name(node)} adds them to others"
                    )
                    return None
        return found

    def _concatenated(self, node: fx.Node) -> _Flow | None:
        parts: Any = node.args[0] if node.args else node.kwargs["tensors"]
        given = named_axis(node, 0)
        rank = len(self._shape(node))
        axes = {self.flows[part].axis for part in parts if part in self.flows}
        if not axes:
            return None
        axis = next(iter(axes))
        if not isinstance(given, int) or len(axes) > 1:
            self._keep(node, f"the operation {operation_name(node)} mixes them")
            return None
        if given % rank != axis:
            if all(part in self.flows for part in parts):
                return self._joined(node)
            self._keep(node, f"the operation {operation_name(node)} joins them to others")
            return None
        channels = [
            self.flows[part].channels if part in self.flows else np.zeros(self._shape(part)[axis], np.int64)
            for part in parts
        ]
        return _Flow(axis=axis, channels=np.concatenate(channels))

    # Sizes as numbers.

    def _number(self, node: fx.Node) -> None:
        """A node that is not a tensor: a shape, a size, or a value computed from sizes; others keep their inputs."""
        target, reads = node.target, node.all_input_nodes
        wanted = node.args[1] if len(node.args) > 1 else None
        attribute = wanted if target is getattr else target
        source = reads[0] if reads else None
        if source is not None and source.name in self.traced.shapes:
            if target == "size" and isinstance(wanted, int):
                flow, axis = self.flows.get(source), wanted % len(self._shape(source))
                self.counted[node] = flow.channels if flow is not None and flow.axis == axis else NONE
                return
            if attribute in ("size", "shape"):
                self.shape_of[node] = source
                return
            if attribute in ("dim", "ndim", "device", "dtype"):
                self.counted[node] = NONE
                return
        if source in self.shape_of and getattr(target, "__name__", "") == "getitem":
            self.counted[node] = self._part_of_shape(self.shape_of[source], wanted)
        elif not any(own.name in self.traced.shapes or own in self.shape_of for own in reads):
            self.counted[node] = np.concatenate([NONE, *(self.counted.get(own, NONE) for own in reads)])
        else:
            self._keep(node, f"the operation {operation_name(node)} reads all of them together")

    def _part_of_shape(self, source: fx.Node, index: Any) -> Integers:
        """The channels whose number a part of a shape contains."""
        flow = self.flows.get(source)
        if flow is None:
            return NONE
        try:
            named = flow.axis in np.atleast_1d(np.arange(len(self._shape(source)))[index])
        except (IndexError, TypeError):
            named = True
        return flow.channels if named else NONE

    def _keep_counts(self, node: fx.Node) -> None:
        """Keep channels whose number is used for more than a shape: fewer of them would change what is computed."""
        for source in node.all_input_nodes:
            reason = f"the operation {operation_name(node)} uses their number"
            self.numbers.keep(self._counted(source), reason)

    def _only_flow(self, node: fx.Node) -> _Flow | None:
        """The flow of the first tensor that a node reads, if it is the only one."""
        tensors = [source for source in node.all_input_nodes if source.name in self.traced.shapes]
        return self.flows.get(tensors[0]) if len(tensors) == 1 else None

    def _shape(self, node: fx.Node) -> tuple[int, ...]:
        return self.traced.shapes[node.name]

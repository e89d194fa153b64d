"""Many networks of one family and depth as one dense network with block-diagonal weights."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import fx, nn

from prunecast.errors import PrunecastError
from prunecast.fleet.layout import Blocks, Layout, Unpackable, side_by_side
from prunecast.fleet.trace import PackPlan, follow, trace

Tensors = Mapping[str, torch.Tensor]
Arrangement = Literal["side by side", "stacked", "alone"]
"""How a pack holds its members: along the channels, along a new axis, or a single network unchanged."""
BATCH_COUNT = "num_batches_tracked"
NO_MASKS: Tensors = {}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a pack, on the host: packed tensors and masks, and each slot's batch counts."""

    tensors: dict[str, torch.Tensor]
    masks: dict[str, torch.Tensor]
    batch_counts: list[dict[str, torch.Tensor] | None]


@dataclass(frozen=True, kw_only=True)
class PackLayout:
    """Where each member's tensors are in a pack; it has no tensors of the device, so host threads may use it."""

    blocks: Mapping[str, Blocks]
    """The members' parts of each packed tensor."""
    dtypes: Mapping[str, torch.dtype]
    parameters: tuple[str, ...]
    inputs: Layout
    kind: Arrangement = "side by side"

    @property
    def single(self) -> bool:
        """Whether the pack is a single, unchanged network."""
        return self.kind == "alone"

    @property
    def whole(self) -> bool:
        """Whether the pack has all buffers of its members, including non-persistent ones."""
        return self.kind != "side by side"

    @property
    def channels(self) -> int | None:
        """The number of packed image channels; None for a stack, whose images have an axis of slots."""
        return None if self.kind == "stacked" else self.inputs.size

    @property
    def slots(self) -> int:
        """The number of slots."""
        return len(self.inputs.places)

    def contents(self, members: Mapping[int, tuple[Tensors, Tensors]]) -> Contents:
        """Arrange state dicts and masks, given by slot, for `Pack.fill`."""
        tensors = {name: self.empty(name) for name in self.blocks}
        masks = {name: self.empty(name) for name in self.parameters}
        counts: list[dict[str, torch.Tensor] | None] = [None] * self.slots
        for slot, (state, member_masks) in members.items():
            counts[slot] = self.write_member(tensors, masks, slot, state, member_masks)
        return Contents(tensors=tensors, masks=masks, batch_counts=counts)

    def write(self, tensors: Tensors, slot: int, values: Tensors) -> None:
        """Copy a member's values into its part of packed tensors of the same names, such as momenta."""
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor[self.blocks[name].members[slot]] = values[name].to(tensor.device, tensor.dtype)

    def read(self, tensors: Tensors, slot: int) -> dict[str, torch.Tensor]:
        """Copy a member's part of packed tensors."""
        return {
            name: tensor.detach()[self.blocks[name].members[slot]].clone(
                memory_format=torch.contiguous_format
            )
            for name, tensor in tensors.items()
        }

    def write_member(
        self,
        tensors: Tensors,
        packed_masks: Tensors,
        slot: int,
        state: Tensors,
        masks: Tensors,
    ) -> dict[str, torch.Tensor]:
        """Write a member into packed tensors and masks on any device, and return its batch counts."""
        counts = {
            name: value.clone()
            for name, value in state.items()
            if name not in self.blocks and name.endswith(BATCH_COUNT)
        }
        if unknown := (set(state) - set(counts)) ^ set(tensors):
            names = ", ".join(sorted(unknown))
            raise PrunecastError(f"A member's state dict and the pack disagree about {names}.")
        kept = {name: torch.ones_like(state[name]) for name in packed_masks} | dict(masks)
        self.write(packed_masks, slot, kept)
        pruned = {name: state[name] * mask.to(state[name].device) for name, mask in masks.items()}
        self.write(tensors, slot, {**state, **pruned})
        return counts

    def empty(self, name: str) -> torch.Tensor:
        """A packed tensor on the host with empty slots."""
        shape = self.blocks[name].shape
        empty = torch.full(shape, _empty_value(name), dtype=self.dtypes[name])
        return (
            empty.to(memory_format=torch.channels_last)
            if len(shape) == 4 and self.kind != "stacked"
            else empty
        )


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A packed network with slots, each of which holds one member or is empty.

    `module` takes images (batch, `inputs.size`, height, width), or (slots, batch, channels, height, width) where
    members are stacked. It returns class scores (batch, slots, classes), or (batch, classes) if the pack is a single
    network. Its tensors have the same names as the members'.
    `masks` has one tensor per parameter: 1 for parameters that a member has left, 0 for pruned ones, between blocks, in
    padding and in empty slots. Gradients are multiplied by it, so zeros stay zero and members stay apart.
    """

    module: nn.Module
    layout: PackLayout
    masks: dict[str, torch.Tensor]
    batch_counts: list[dict[str, torch.Tensor] | None]
    """For each slot the `num_batches_tracked` of its member, which are not packed; None if it is empty."""

    @property
    def single(self) -> bool:
        """Whether the pack is a single, unchanged network."""
        return self.layout.single

    @property
    def slots(self) -> int:
        """The number of slots."""
        return self.layout.slots

    def load(self, slot: int, state: Tensors, masks: Tensors = NO_MASKS) -> None:
        """Write a member's state dict into a slot; pruned weights become zero."""
        self.batch_counts[slot] = self.layout.write_member(self.tensors(), self.masks, slot, state, masks)

    @torch.no_grad()
    def fill(self, contents: Contents) -> None:
        """Replace everything in the pack, empty slots included."""
        for name, tensor in self.tensors().items():
            tensor.copy_(contents.tensors[name])
        for name, mask in self.masks.items():
            mask.copy_(contents.masks[name])
        self.batch_counts[:] = contents.batch_counts

    def twin(self) -> "Pack":
        """An empty pack of the same shape with tensors of its own."""
        return empty_pack(copy.deepcopy(self.module), self.layout)

    def wipe(self) -> None:
        """Empty all slots, and what is between them, because values that are not finite spread everywhere."""
        self.batch_counts[:] = [None] * self.slots
        with torch.no_grad():
            for name, tensor in (*self.tensors().items(), *self.masks.items()):
                tensor.fill_(_empty_value(name))

    def parameters(self) -> dict[str, torch.Tensor]:
        """The packed parameters by name, in the order of the masks."""
        return dict(self.module.named_parameters())

    def join(self, images: torch.Tensor) -> torch.Tensor:
        """Convert images (slots, batch, channels, height, width) to what the module takes."""
        return join(images, self.layout.channels, images.dtype)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The packed parameters and statistics by name."""
        return {
            name: tensor for name, tensor in all_tensors(self.module).items() if name in self.layout.blocks
        }


def join(images: torch.Tensor, channels: int | None, dtype: torch.dtype) -> torch.Tensor:
    """Join images (slots, batch, C, H, W) along channels, padded, channels last; keep them if `channels` is None."""
    if channels is None:
        return images.to(dtype)
    rows = images.permute(1, 3, 4, 0, 2).flatten(3)
    return nn.functional.pad(rows, (0, channels - rows.shape[3])).to(dtype).permute(0, 3, 1, 2)


def empty_pack(module: nn.Module, layout: PackLayout) -> Pack:
    """An empty pack of this module."""
    masks = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    packed = Pack(module=module, layout=layout, masks=masks, batch_counts=[None] * layout.slots)
    packed.wipe()
    return packed


def single_network(
    network: nn.Module, *, image_shape: Sequence[int], device: torch.device | str = "cpu"
) -> Pack:
    """An empty pack that is a single, unchanged network, for families that cannot be packed.

    Like the plain loop's network it has channels last.
    """
    module = copy.deepcopy(network)
    module.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    tensors = all_tensors(module)
    layout = PackLayout(
        blocks={name: Blocks(shape=tuple(tensor.shape), members=((),)) for name, tensor in tensors.items()},
        dtypes={name: tensor.dtype for name, tensor in tensors.items()},
        parameters=tuple(name for name, _ in module.named_parameters()),
        inputs=side_by_side([image_shape[0]]),
        kind="alone",
    )
    return empty_pack(module, layout)


def all_tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers, including non-persistent ones; a shared one is listed under each of its names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def pack(
    members: Sequence[nn.Module],
    *,
    image_shape: Sequence[int],
    multiple: int = 16,
    smallest_group: int | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    memory_format: torch.memory_format = torch.contiguous_format,
) -> Pack:
    """Build an empty pack with one slot per network; only the networks' graphs and shapes are used.

    Images and outputs of convolutions are padded to a multiple of `multiple` channels. Convolutions are divided into
    groups of at least `smallest_group` channels if no member crosses them; None keeps them dense. Raises `Unpackable`
    with the name of the first module or operation that might mix members.
    """
    different = {id(model): model for model in members}
    traced = {key: trace(model, image_shape) for key, model in different.items()}
    plan = follow([traced[id(model)] for model in members], multiple=multiple, smallest_group=smallest_group)
    for model in different.values():
        _refuse_unpacked(model, plan)
    module = fx.GraphModule(plan.modules, _with_member_axis(plan), class_name="Packed")
    module = module.to_empty(device=device).to(dtype=dtype)
    module.to(memory_format=memory_format)  # type: ignore[call-overload]
    layout = PackLayout(
        blocks=plan.blocks,
        dtypes=dict.fromkeys(plan.blocks, dtype),
        parameters=tuple(name for name, _ in module.named_parameters()),
        inputs=plan.inputs,
    )
    return empty_pack(module, layout)


def _with_member_axis(plan: PackPlan) -> fx.Graph:
    """Let the graph return (batch, slots, classes), without padding."""
    classes = set(plan.outputs.counts())
    if len(classes) > 1:
        raise Unpackable(f"The networks of a pack have different numbers of classes: {sorted(classes)}.")
    (output,) = (node for node in plan.graph.nodes if node.op == "output")
    scores = output.args[0]
    places = [place for channels in plan.outputs.places for place in channels]
    with plan.graph.inserting_before(output):
        if places != list(range(plan.outputs.size)):
            scores = plan.graph.call_function(_pick, (scores, tuple(places)))
        scores = plan.graph.call_method("unflatten", (scores, 1, (len(plan.outputs.places), classes.pop())))
    output.args = (scores,)
    return plan.graph


def _pick(scores: torch.Tensor, places: tuple[int, ...]) -> torch.Tensor:
    return scores[:, list(places)]


fx.wrap("_pick")


def _refuse_unpacked(model: nn.Module, plan: PackPlan) -> None:
    """Refuse tensors that belong to no known layer; they would not be trained."""
    left = [name for name in model.state_dict() if name not in plan.blocks and not name.endswith(BATCH_COUNT)]
    if left:
        raise Unpackable(
            f"The tensor {left[0]!r} does not belong to a layer that the packer knows, so the family cannot be packed."
        )


def _empty_value(name: str) -> float:
    return 1.0 if name.endswith("running_var") else 0.0

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
"""How members lie in a pack: along the channels, along an axis of their own, or one network as it is written."""
BATCH_COUNT = "num_batches_tracked"
NO_MASKS: Tensors = {}


@dataclass(frozen=True, kw_only=True)
class Contents:
    """Everything that fills a pack, laid out on the host: packed tensors and masks, and every slot's batch counts."""

    tensors: dict[str, torch.Tensor]
    masks: dict[str, torch.Tensor]
    batch_counts: list[dict[str, torch.Tensor] | None]


@dataclass(frozen=True, kw_only=True)
class PackLayout:
    """The places of all tensors in a pack; it has no tensor of the device, so host threads may use it."""

    blocks: Mapping[str, Blocks]
    """The places of the members' parts of each packed tensor."""
    dtypes: Mapping[str, torch.dtype]
    parameters: tuple[str, ...]
    inputs: Layout
    kind: Arrangement = "side by side"

    @property
    def single(self) -> bool:
        """Whether the pack is one network that runs as it is written."""
        return self.kind == "alone"

    @property
    def whole(self) -> bool:
        """Whether the pack has every buffer of its members, those that a state dict leaves out, too."""
        return self.kind != "side by side"

    @property
    def channels(self) -> int | None:
        """The channels of images that lie side by side; None where they have an axis of members instead."""
        return None if self.kind == "stacked" else self.inputs.size

    @property
    def slots(self) -> int:
        """The number of members there is room for."""
        return len(self.inputs.places)

    def contents(self, members: Mapping[int, tuple[Tensors, Tensors]]) -> Contents:
        """State dicts and masks by slot, laid out for `Pack.fill`."""
        tensors = {name: self.empty(name) for name in self.blocks}
        masks = {name: self.empty(name) for name in self.parameters}
        counts: list[dict[str, torch.Tensor] | None] = [None] * self.slots
        for slot, (state, member_masks) in members.items():
            counts[slot] = self.write_member(tensors, masks, slot, state, member_masks)
        return Contents(tensors=tensors, masks=masks, batch_counts=counts)

    def write(self, tensors: Tensors, slot: int, values: Tensors) -> None:
        """Copy a member's values into its part of packed tensors of the same names, momenta for instance."""
        with torch.no_grad():
            for name, tensor in tensors.items():
                tensor[self.blocks[name].members[slot]] = values[name].to(tensor.device, tensor.dtype)

    def read(self, tensors: Tensors, slot: int) -> dict[str, torch.Tensor]:
        """A member's part of packed tensors, as tensors of its own."""
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
        """Write a member into packed tensors and masks, wherever they are, and return its batch counts."""
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
        empty = torch.full(shape, _resting_value(name), dtype=self.dtypes[name])
        return (
            empty.to(memory_format=torch.channels_last)
            if len(shape) == 4 and self.kind != "stacked"
            else empty
        )


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A packed network with slots, each of which holds one member or is empty.

    `module` takes images (batch, `inputs.size`, height, width), or (slots, batch, channels, height, width) where
    members are stacked. It gives class scores (batch, slots, classes), or (batch, classes) where the pack is a single
    network as it is. Its tensors have the members' own names.
    `masks` has one tensor per parameter: 1 where a member's surviving weight, bias or normalisation lies, 0 between the
    blocks, in pruned places, in padding and in empty slots. A step that multiplies the gradients by it keeps the
    members apart for ever.
    """

    module: nn.Module
    layout: PackLayout
    masks: dict[str, torch.Tensor]
    batch_counts: list[dict[str, torch.Tensor] | None]
    """For every slot None, or what its member's state dict holds besides packed tensors: counts of batches."""

    @property
    def single(self) -> bool:
        """Whether the pack is one network that runs as it is written."""
        return self.layout.single

    @property
    def slots(self) -> int:
        """The number of members there is room for."""
        return self.layout.slots

    def load(self, slot: int, state: Tensors, masks: Tensors = NO_MASKS) -> None:
        """Put a member's state dict in a slot; weights that its masks (by name) prune become zero."""
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
        """Empty all slots and what lies between them: a number that is not finite gets everywhere."""
        self.batch_counts[:] = [None] * self.slots
        with torch.no_grad():
            for name, tensor in (*self.tensors().items(), *self.masks.items()):
                tensor.fill_(_resting_value(name))

    def parameters(self) -> dict[str, torch.Tensor]:
        """The packed parameters by name, in the order of the masks."""
        return dict(self.module.named_parameters())

    def join(self, images: torch.Tensor) -> torch.Tensor:
        """Images of all slots, (slots, batch, channels, height, width), as the module takes them."""
        return join(images, self.layout.channels, images.dtype)

    def tensors(self) -> dict[str, torch.Tensor]:
        """The packed parameters and statistics by name."""
        return {
            name: tensor for name, tensor in all_tensors(self.module).items() if name in self.layout.blocks
        }


def join(images: torch.Tensor, channels: int | None, dtype: torch.dtype) -> torch.Tensor:
    """Images (slots, batch, C, H, W) side by side along channels, padded, channels last in memory; or as they are."""
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
    """A pack of one network that runs as it is written, for families that cannot be packed.

    It is the network of the plain loop, with channels last, and empty until it is filled.
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
    """Parameters and buffers, those that a state dict leaves out too; a shared one has all its names."""
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
    """Build an empty pack with one slot for every given network; these only lend their graphs and shapes.

    Images and outputs of convolutions are padded to `multiple` channels. `smallest_group` lets these be cut
    into groups of at least so many channels where no member crosses them; None keeps them dense. Raises
    `Unpackable` with the name of the first module or operation that is not known to keep members apart.
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
    """End the graph with (batch, slots, classes); scores that lie between padding are picked out first."""
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
    """A tensor that the graph does not use through a known layer would silently stay behind."""
    left = [name for name in model.state_dict() if name not in plan.blocks and not name.endswith(BATCH_COUNT)]
    if left:
        raise Unpackable(
            f"The tensor {left[0]!r} does not belong to a layer that the packer knows, so the family cannot be packed."
        )


def _resting_value(name: str) -> float:
    return 1.0 if name.endswith("running_var") else 0.0

"""Many networks of one family and depth as one dense network with block-diagonal weights."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx, nn

from prunecast.errors import PrunecastError
from prunecast.fleet.blocks import Blocks
from prunecast.fleet.follow import Plan, follow
from prunecast.fleet.layout import Layout, Unpackable
from prunecast.fleet.trace import trace

Tensors = Mapping[str, torch.Tensor]
COUNTER = "num_batches_tracked"


@dataclass(frozen=True, kw_only=True)
class Pack:
    """A packed network with slots, each of which holds one member or nobody.

    `module` takes images (batch, `inputs.size`, height, width) and gives class scores (batch, slots,
    classes); its state dict has the members' own names. `masks` has one tensor per parameter: 1 where a
    member's surviving weight, bias or normalisation lies, 0 between the blocks, in pruned places, in padding
    and in empty slots. A step that multiplies the parameters by it keeps the members apart for ever.
    """

    module: fx.GraphModule
    masks: dict[str, torch.Tensor]
    blocks: Mapping[str, Blocks]
    inputs: Layout
    guests: list[dict[str, torch.Tensor] | None] = field(default_factory=list)
    """For every slot None, or what its member's state dict holds besides packed tensors: batch counts."""

    @property
    def slots(self) -> int:
        """The number of members there is room for."""
        return len(self.inputs.places)

    def load(self, slot: int, state: Tensors, masks: Tensors | None = None) -> None:
        """Put a member's state dict in a slot; weights that its masks (by name) prune become zero."""
        tensors = self.tensors()
        counters = {name: value.clone() for name, value in state.items() if name.endswith(COUNTER)}
        self._refuse_strangers(set(state) - set(counters), set(tensors))
        self.guests[slot] = counters
        self.write(tensors, slot, state)
        self.write(
            self.masks, slot, {name: torch.ones_like(state[name]) for name in self.masks} | dict(masks or {})
        )
        with torch.no_grad():
            for name in masks or {}:
                index = self.blocks[name].members[slot]
                tensors[name][index] = tensors[name][index] * self.masks[name][index]

    def unload(self, slot: int, *, batches: int = 0) -> dict[str, torch.Tensor]:
        """Take a member out as its own state dict and empty its slot; it has trained on `batches` here."""
        counters = self.guests[slot]
        if counters is None:
            raise PrunecastError(f"Slot {slot} of the pack is empty.")
        state = self.read(self.tensors(), slot) | {name: count + batches for name, count in counters.items()}
        self.clear(slot)
        return state

    def clear(self, slot: int) -> None:
        """Empty a slot: zeros, and a running variance of one, as in a pack that was never filled."""
        self.guests[slot] = None
        with torch.no_grad():
            for name, tensor in (*self.tensors().items(), *self.masks.items()):
                tensor[self.blocks[name].members[slot]] = _resting_value(name)

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

    def twin(self) -> "Pack":
        """An empty pack of the same shape with tensors of its own."""
        module = copy.deepcopy(self.module)
        masks = {name: torch.zeros_like(mask) for name, mask in self.masks.items()}
        empty = Pack(
            module=module, masks=masks, blocks=self.blocks, inputs=self.inputs, guests=[None] * self.slots
        )
        empty.wipe()
        return empty

    def wipe(self) -> None:
        """Empty all slots and what lies between them: a number that is not finite gets everywhere."""
        self.guests[:] = [None] * self.slots
        with torch.no_grad():
            for name, tensor in (*self.module.state_dict().items(), *self.masks.items()):
                tensor.fill_(_resting_value(name))

    def parameters(self) -> dict[str, torch.Tensor]:
        """The packed parameters by name, in the order of the masks."""
        return dict(self.module.named_parameters())

    def join(self, images: torch.Tensor) -> torch.Tensor:
        """Images of all slots, (slots, batch, channels, height, width), joined along channels and padded."""
        slots, batch, channels, *size = images.shape
        packed = images.transpose(0, 1).reshape(batch, slots * channels, *size)
        return nn.functional.pad(packed, (0, 0, 0, 0, 0, self.inputs.size - slots * channels))

    def tensors(self) -> dict[str, torch.Tensor]:
        """The packed parameters and statistics by name."""
        return {name: tensor for name, tensor in self.module.state_dict().items() if name in self.blocks}

    def _refuse_strangers(self, given: set[str], known: set[str]) -> None:
        if given != known:
            names = ", ".join(sorted(given ^ known))
            raise PrunecastError(f"A member's state dict and the pack disagree about {names}.")


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
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.fill_(_resting_value(name))
    masks = {name: torch.zeros_like(parameter) for name, parameter in module.named_parameters()}
    return Pack(
        module=module, masks=masks, blocks=plan.blocks, inputs=plan.inputs, guests=[None for _ in members]
    )


def _with_member_axis(plan: Plan) -> fx.Graph:
    """End the graph with (batch, slots, classes); scores that lie between padding are picked out first."""
    classes = set(plan.outputs.counts())
    if len(classes) > 1:
        raise Unpackable(f"The networks of a pack have different numbers of classes: {sorted(classes)}.")
    (output,) = (node for node in plan.graph.nodes if node.op == "output")
    scores = output.args[0]
    places = [place for own in plan.outputs.places for place in own]
    with plan.graph.inserting_before(output):
        if places != list(range(plan.outputs.size)):
            scores = plan.graph.call_function(_pick, (scores, tuple(places)))
        scores = plan.graph.call_method("unflatten", (scores, 1, (len(plan.outputs.places), classes.pop())))
    output.args = (scores,)
    return plan.graph


def _pick(scores: torch.Tensor, places: tuple[int, ...]) -> torch.Tensor:
    return scores[:, list(places)]


fx.wrap("_pick")


def _refuse_unpacked(model: nn.Module, plan: Plan) -> None:
    """A tensor that the graph does not use through a known layer would silently stay behind."""
    left = [name for name in model.state_dict() if name not in plan.blocks and not name.endswith(COUNTER)]
    if left:
        raise Unpackable(
            f"The tensor {left[0]!r} belongs to no layer the packer knows, so the family cannot be packed."
        )


def _resting_value(name: str) -> float:
    return 1.0 if name.endswith("running_var") else 0.0

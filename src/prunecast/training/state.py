"""A training's state as plain CPU tensors: what a checkpoint, a rewind point and a level's start hold."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.training.loop import Bench
from prunecast.training.optimizer import zero_slots

Tensors = dict[str, Tensor]
Masks = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class State:
    """A network and its optimizer's memory between two steps."""

    network: Tensors
    """Parameters and buffers by their names in the state dict."""
    slots: Tensors
    """The optimizer's memory as `slot/position`; empty means zero."""


def copy_state(bench: Bench) -> State:
    """The present state, copied to the CPU."""
    slots = {
        f"{slot}/{position}": tensor
        for slot, tensors in bench.slots.items()
        for position, tensor in enumerate(tensors)
    }
    return State(network=_copied(bench.model.state_dict()), slots=_copied(slots))


def _copied(tensors: Mapping[str, Tensor]) -> Tensors:
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def share_state(bench: Bench) -> None:
    """Give every member of a team the first one's state and masks, so that all start from the same bits."""
    slots = [tensor for tensors in bench.slots.values() for tensor in tensors]
    masks = [mask for mask in bench.masks if mask is not None]
    bench.team.copy_first([*bench.model.state_dict().values(), *slots, *masks])


@torch.no_grad()
def set_state(bench: Bench, state: State, masks: Masks) -> None:
    """Write a state and masks into the bench's own tensors; pruned weights become exactly zero."""
    own = bench.model.state_dict()
    for name, tensor in own.items():
        tensor.copy_(state.network[name])
    parameters = dict(bench.model.named_parameters())
    for (name, parameter), mask in zip(parameters.items(), bench.masks, strict=True):
        if mask is not None:
            mask.copy_(masks[name])
            parameter.masked_fill_(mask == 0, 0.0)
    fresh = zero_slots(bench.recipe, bench.parameters)
    for slot, tensors in bench.slots.items():
        for position, tensor in enumerate(tensors):
            tensor.copy_(state.slots.get(f"{slot}/{position}", fresh[slot][position]))

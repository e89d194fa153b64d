"""A training's state as plain CPU tensors: what a checkpoint, a rewind point and a level's start hold."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.training.loop import Trainer
from prunecast.training.optimizer import initial_state

Tensors = dict[str, Tensor]
Masks = Mapping[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class State:
    """A network and its optimizer's memory between two steps."""

    network: Tensors
    """Parameters and buffers by their names in the state dict."""
    optimizer_state: Tensors
    """The optimizer's memory as `slot/position`; empty means zero."""


def copy_state(trainer: Trainer) -> State:
    """The present state, copied to the CPU."""
    optimizer_state = {
        f"{slot}/{position}": tensor
        for slot, tensors in trainer.optimizer_state.items()
        for position, tensor in enumerate(tensors)
    }
    return State(network=_copied(trainer.model.state_dict()), optimizer_state=_copied(optimizer_state))


def _copied(tensors: Mapping[str, Tensor]) -> Tensors:
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def share_state(trainer: Trainer) -> None:
    """Give every member of a group the first one's state and masks, so that all start from the same bits."""
    optimizer_state = [tensor for tensors in trainer.optimizer_state.values() for tensor in tensors]
    masks = [mask for mask in trainer.masks if mask is not None]
    trainer.group.copy_first([*trainer.model.state_dict().values(), *optimizer_state, *masks])


@torch.no_grad()
def set_state(trainer: Trainer, state: State, masks: Masks) -> None:
    """Write a state and masks into the trainer's own tensors; pruned weights become exactly zero."""
    own = trainer.model.state_dict()
    for name, tensor in own.items():
        tensor.copy_(state.network[name])
    parameters = dict(trainer.model.named_parameters())
    for (name, parameter), mask in zip(parameters.items(), trainer.masks, strict=True):
        if mask is not None:
            mask.copy_(masks[name])
            parameter.masked_fill_(mask == 0, 0.0)
    fresh = initial_state(trainer.recipe, trainer.parameters)
    for slot, tensors in trainer.optimizer_state.items():
        for position, tensor in enumerate(tensors):
            tensor.copy_(state.optimizer_state.get(f"{slot}/{position}", fresh[slot][position]))

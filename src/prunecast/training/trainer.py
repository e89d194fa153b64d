"""A network with everything that a training step reads and writes, and its state as plain CPU tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from prunecast.data import Draws, Source, draw
from prunecast.spec import Recipe, rng
from prunecast.training.losses import LossFunction, loss_of
from prunecast.training.norms import synchronise_norms, use_narrow_norms
from prunecast.training.optimizer import (
    OptimizerState,
    UpdateRule,
    find_optimizer,
    initial_state,
    state_tensors,
    update_rule,
)
from prunecast.training.parallel import ALONE, ProcessGroup, distribute
from prunecast.training.schedule import Timeline, learning_rate, timeline


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """A network on its device with all that a step reads and writes; only the values of tensors change."""

    model: nn.Module
    recipe: Recipe
    times: Timeline
    replicate: int
    source: Source
    """The training examples."""
    subsample: NDArray[np.int64]
    """The indices of the examples that this network is trained on."""
    parameters: list[Tensor]
    masks: list[Tensor | None]
    """One per parameter; None where nothing is ever pruned."""
    optimizer_state: OptimizerState
    rule: UpdateRule
    """How a step changes the parameters."""
    loss_function: LossFunction
    """The mean loss of a batch, from its logits and labels."""
    order: Tensor
    """The indices of one epoch's examples in the order of their use."""
    draws: Draws | None
    """The augmentation of one epoch's examples."""
    rates: Tensor
    """The learning rate of every step of one epoch."""
    cursor: Tensor
    """The number of the step within the epoch, a tensor of one element."""
    loss: Tensor
    """The sum of the losses since it was last set to zero; in a group, this process's share of it."""
    group: ProcessGroup
    forward: nn.Module
    """What is called on images in training: the model, or its DistributedDataParallel wrapper in a group."""


def check_recipe(recipe: Recipe, num_examples: int) -> None:
    """Import what a recipe names, so that a missing module is reported before anything is trained."""
    find_optimizer(recipe)
    loss_of(recipe)
    learning_rate(recipe, timeline(recipe, num_examples), 0)


def prepare(
    model: nn.Module,
    prunable: tuple[str, ...],
    recipe: Recipe,
    replicate: int,
    source: Source,
    subsample: NDArray[np.int64],
    group: ProcessGroup = ALONE,
) -> Trainer:
    """Move a network to the device of its data, with masks of ones and a fresh optimizer.

    All processes of a group prepare the same network with the same examples at the same time.
    """
    device = source.labels.device
    # Images come channels last, and convolutions are faster with it on CPU and GPU.
    model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    synchronise_norms(model, group, device)
    use_narrow_norms(model, device)
    names, parameters = zip(*model.named_parameters(), strict=True)
    times = timeline(recipe, len(subsample))
    count = times.epoch * times.batch
    draws = draw(recipe.augmentation, count, source.image_shape, rng(replicate, "augmentation", 0))
    return Trainer(
        model=model,
        recipe=recipe,
        times=times,
        replicate=replicate,
        source=source,
        subsample=subsample,
        parameters=list(parameters),
        masks=[
            torch.ones_like(parameter) if name in prunable else None
            for name, parameter in zip(names, parameters, strict=True)
        ],
        optimizer_state=initial_state(recipe, list(parameters)),
        rule=update_rule(recipe, model),
        loss_function=loss_of(recipe).mean,
        order=torch.zeros(count, dtype=torch.int64, device=device),
        draws=None if draws is None else draws.to(device),
        rates=torch.zeros(times.epoch, dtype=parameters[0].dtype, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        loss=torch.zeros((), dtype=parameters[0].dtype, device=device),
        group=group,
        forward=distribute(model, group, device),
    )


@dataclass(frozen=True, kw_only=True)
class State:
    """A network and its optimizer between two steps, as CPU tensors: what a checkpoint or rewind point holds."""

    network: dict[str, Tensor]
    """Parameters and buffers by their names in the state dict."""
    optimizer_state: dict[str, Tensor]
    """The tensors of the optimizer as `name/position`; empty for a fresh optimizer."""


def copy_state(trainer: Trainer) -> State:
    """Copy the present state to the CPU."""
    optimizer_state = {
        f"{name}/{position}": tensor
        for name, tensors in trainer.optimizer_state.items()
        for position, tensor in enumerate(tensors)
    }
    return State(network=_copied(trainer.model.state_dict()), optimizer_state=_copied(optimizer_state))


def _copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }


def share_state(trainer: Trainer) -> None:
    """Give every process of a group the state and masks of the first, so that all start from the same bits."""
    masks = [mask for mask in trainer.masks if mask is not None]
    trainer.group.copy_first(
        [*trainer.model.state_dict().values(), *state_tensors(trainer.optimizer_state), *masks]
    )


@torch.no_grad()
def set_state(trainer: Trainer, state: State, masks: Mapping[str, Tensor]) -> None:
    """Write a state and masks into the trainer's own tensors; pruned weights become exactly zero."""
    for name, tensor in trainer.model.state_dict().items():
        tensor.copy_(state.network[name])
    parameters = dict(trainer.model.named_parameters())
    for (name, parameter), mask in zip(parameters.items(), trainer.masks, strict=True):
        if mask is not None:
            mask.copy_(masks[name])
            parameter.masked_fill_(mask == 0, 0.0)
    fresh = initial_state(trainer.recipe, trainer.parameters)
    for name, tensors in trainer.optimizer_state.items():
        for position, tensor in enumerate(tensors):
            tensor.copy_(state.optimizer_state.get(f"{name}/{position}", fresh[name][position]))

"""One training step of a pack: each member's batch, one forward and backward pass, one optimizer step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from prunecast.data import Draws, Source, draw
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.pack import Pack, join
from prunecast.fleet.stack import Noise, noise_of
from prunecast.spec import Recipe, rng
from prunecast.training import (
    Loss,
    OptimizerState,
    Owners,
    Tensors,
    UpdateRule,
    find_optimizer,
    initial_state,
    loss_of,
    optimizer_step,
    state_tensors,
    update_rule,
)

Function = Callable[..., Any]
IN_BFLOAT16 = (nn.Conv2d, nn.Linear, nn.MultiheadAttention)
"""Layers whose parameters have a bfloat16 copy under bf16."""


@dataclass(frozen=True, kw_only=True)
class PackTrainer:
    """A pack with all tensors that a step reads and writes. Only their values change, so steps can be captured."""

    pack: Pack
    recipe: Recipe
    batch: int
    source: Source
    """The training set of all members."""
    parameters: Tensors
    trained: Tensors
    """What the forward pass reads: the parameters, or their bfloat16 copies if they belong to `IN_BFLOAT16` layers."""
    optimizer_state: OptimizerState
    rule: UpdateRule
    """The optimizer step."""
    loss: Loss
    order: Tensor
    """(slots, positions): the examples of an epoch, in each member's order."""
    draws: Draws | None
    """(slots, positions, ...): their augmentation."""
    rates: Tensor
    """The learning rate of every step of one epoch."""
    cursor: Tensor
    """The number of the step within the epoch, a tensor of one element."""
    losses: Tensor
    """Each member's sum of losses since the start."""
    healthy: Tensor
    """For each member, the number of steps after which its sum of losses was finite."""
    noise: Noise | None
    """The members' dropout noise; None if they draw none."""

    @property
    def mixed(self) -> bool:
        """Whether convolutions and matrix products run in bfloat16."""
        return self.recipe.precision == "bf16"

    @property
    def image_dtype(self) -> torch.dtype:
        """The dtype of the images that the network gets."""
        return torch.bfloat16 if self.mixed and not self.pack.single else self.losses.dtype


def refuse_unpackable(recipe: Recipe) -> None:
    """Raise `Unpackable` for a recipe under which networks in one pack might influence each other."""
    if loss_of(recipe).each is None:
        raise Unpackable(f"The loss {recipe.loss!r} does not give a loss per example.")
    if not find_optimizer(recipe).elementwise:
        raise Unpackable(f"The optimizer {recipe.optimizer!r} is not elementwise.")


def pack_trainer(pack: Pack, recipe: Recipe, source: Source, *, batch: int, epoch: int) -> PackTrainer:
    """Allocate all tensors of a trainer, for epochs of at most `epoch` steps."""
    parameters = list(pack.parameters().values())
    device, dtype, count = parameters[0].device, parameters[0].dtype, epoch * batch
    sample = draw(recipe.augmentation, 1, source.image_shape, rng(0, "augmentation", 0))
    shape = (pack.slots, count)
    return PackTrainer(
        pack=pack,
        recipe=recipe,
        batch=batch,
        source=source,
        parameters=parameters,
        trained=_trained(pack, recipe),
        optimizer_state=initial_state(recipe, parameters),
        rule=update_rule(
            recipe,
            pack.module,
            _owners(pack) if recipe.gradient_clip else None,
            stacked=pack.layout.kind == "stacked",
        ),
        loss=loss_of(recipe),
        order=torch.zeros(shape, dtype=torch.int32, device=device),
        draws=None
        if sample is None
        else sample.map(
            lambda values: torch.zeros((*shape, *values.shape[1:]), dtype=compact(values), device=device)
        ),
        rates=torch.zeros(epoch, dtype=dtype, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        losses=torch.zeros(pack.slots, dtype=dtype, device=device),
        healthy=torch.zeros(pack.slots, dtype=torch.int32, device=device),
        noise=noise_of(pack),
    )


def _owners(pack: Pack) -> Owners | None:
    """The slot that owns each row of the parameters; None for one network alone."""
    if pack.single:
        return None
    named, slots = pack.parameters(), pack.slots
    total = sum(len(parameter) for parameter in named.values())
    network = torch.zeros(total, dtype=torch.int64)
    rows: list[list[Tensor]] = [[] for _ in range(slots)]
    start = 0
    for name, parameter in named.items():
        places = torch.arange(start, start + len(parameter))
        for slot, slot_rows in enumerate(rows):
            slot_rows.append(
                places[pack.layout.blocks[name].members[slot][0]].flatten()
            )  # a stack has a row for every slot
            network[slot_rows[-1]] = slot
        start += len(parameter)
    joined = nn.utils.rnn.pad_sequence(list(map(torch.cat, rows)), batch_first=True, padding_value=total)
    device = next(iter(named.values())).device
    return Owners(rows=joined.to(device), network=network.to(device))


def compact(values: Tensor) -> torch.dtype:
    """The smallest dtype that holds these draws: shifts are a few pixels."""
    return torch.int8 if values.dtype == torch.int64 else values.dtype


def _trained(pack: Pack, recipe: Recipe) -> Tensors:
    """Make bfloat16 copies, so that a step casts each parameter once; a single network has none, autocast does it."""
    found = []
    for name, parameter in pack.parameters().items():
        layer = pack.module.get_submodule(name.rpartition(".")[0])
        low = recipe.precision == "bf16" and not pack.single and isinstance(layer, IN_BFLOAT16)
        found.append(parameter.detach().bfloat16().requires_grad_() if low else parameter)
    return found


@dataclass(frozen=True, kw_only=True)
class Programs:
    """The three parts of a step, eager or compiled."""

    gather: Function
    forward: Function
    update: Function


def step(trainer: PackTrainer, module: nn.Module, programs: Programs) -> None:
    """One step of all members at the cursor.

    `module` is called with the trainer's tensors, so all packs of a shape can share its compiled code. A single network
    is called with its own tensors.
    """
    pack, device = trainer.pack, trainer.cursor.device
    if trainer.noise is not None:
        trainer.noise.draw()
    places = (trainer.cursor, trainer.batch, pack.layout.channels, trainer.image_dtype)
    images, labels = programs.gather(trainer.source, trainer.order, trainer.draws, *places)
    state = None
    if not pack.single:
        state = dict(zip(pack.masks, trainer.trained, strict=True)) | dict(pack.module.named_buffers())
    with torch.autocast(device.type, torch.bfloat16, trainer.mixed, cache_enabled=pack.single):
        total, losses = programs.forward(module, state, images, labels, trainer.losses.dtype, trainer.loss)
    gradients = torch.autograd.grad(total, trainer.trained, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        rate = trainer.rates.index_select(0, trainer.cursor).squeeze()
        state_and_masks = (trainer.optimizer_state, list(pack.masks.values()))
        programs.update(
            trainer.rule, trainer.parameters, list(gradients), *state_and_masks, rate, trainer.trained
        )
        trainer.losses.add_(losses)
        trainer.healthy.add_(torch.isfinite(trainer.losses))
        trainer.cursor.add_(1)


def gather(
    source: Source,
    order: Tensor,
    draws: Draws | None,
    cursor: Tensor,
    batch: int,
    channels: int | None,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The images of a step, joined for the pack, and their labels (slots, batch)."""
    positions = cursor * batch + torch.arange(batch, device=cursor.device)
    indices = order[:, positions].flatten().long()
    step_draws = None if draws is None else draws.map(lambda values: values[:, positions].flatten(0, 1))
    images = source.batch(indices, step_draws).view(len(order), batch, *source.image_shape)
    return join(images, channels, dtype), source.labels[indices].view(len(order), batch)


def forward(
    module: nn.Module,
    state: dict[str, Tensor] | None,
    images: Tensor,
    labels: Tensor,
    dtype: torch.dtype,
    loss: Loss,
) -> tuple[Tensor, Tensor]:
    """The sum of the members' mean losses, and these losses."""
    scores: Tensor = module(images) if state is None else torch.func.functional_call(module, state, (images,))
    logits, targets = scores.to(dtype).flatten(0, -2), labels.t().flatten()
    if loss.each is None:  # one network alone
        mean = loss.mean(logits, targets)
        return mean, mean.detach().to(dtype).reshape(1)
    losses = loss.each(logits, targets).view(len(scores), -1).mean(0)
    return losses.sum(), losses.detach()


EAGER = Programs(gather=gather, forward=forward, update=optimizer_step)


@torch.no_grad()
def reset(trainer: PackTrainer) -> None:
    """Set optimizer state, cursor and sums to zero, and the copies to the parameters."""
    for tensor in (*state_tensors(trainer.optimizer_state), trainer.cursor, trainer.losses, trainer.healthy):
        tensor.zero_()
    renew_copies(trainer)


@torch.no_grad()
def renew_copies(trainer: PackTrainer) -> None:
    """Set the bfloat16 copies to the parameters."""
    for low, high in zip(trainer.trained, trainer.parameters, strict=True):
        if low is not high:
            low.copy_(high)


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy values to the device through pinned memory, without waiting for the copy."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values

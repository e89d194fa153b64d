"""The plain training loop: the reference that every faster way of training is tested against."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from prunecast.data import Draws, Source, draw
from prunecast.data.stream import batches
from prunecast.spec import TORCH_GENERATOR, Recipe, rng, seed
from prunecast.training.norms import synchronise
from prunecast.training.optimizer import OptimizerState, initial_state, laid_out_like, optimizer_step
from prunecast.training.parallel import ALONE, ProcessGroup, gradients_of, together
from prunecast.training.precision import autocast
from prunecast.training.schedule import Timeline, learning_rate, stretches, timeline


@dataclass(frozen=True, kw_only=True)
class Trainer:
    """A network on its device with all that a step reads and writes; only the tensors' values change."""

    model: nn.Module
    recipe: Recipe
    times: Timeline
    replicate: int
    source: Source
    """The training examples."""
    subsample: NDArray[np.int64]
    """The indices of the examples this network may see."""
    parameters: list[Tensor]
    masks: list[Tensor | None]
    """One for each parameter, none where nothing is ever pruned."""
    optimizer_state: OptimizerState
    order: Tensor
    """The indices of one epoch's examples, in the order of their use."""
    draws: Draws | None
    """The augmentation of one epoch's examples."""
    rates: Tensor
    """The learning rate of every step of one epoch."""
    cursor: Tensor
    """The number of the step within the epoch, a tensor of one element."""
    loss: Tensor
    """The sum of the losses since it was last set to zero; of a group, this member's share of it."""
    group: ProcessGroup
    forward: nn.Module
    """What is called on images in training: the model, or what synchronises it with the rest of the group."""


def train(trainer: Trainer, advance: Callable[[], None], first: int, last: int) -> float:
    """Train from step `first` to before step `last` and return the mean loss.

    `advance` does one step: `lambda: step(trainer)`, or the same captured as a CUDA graph. Between the ends of
    an epoch nothing waits for the device. Images that come from files are fetched one batch ahead.
    """
    trainer.model.train()
    trainer.loss.zero_()
    for begin, end in stretches(trainer.times, first, last):
        load_epoch(trainer, begin // trainer.times.epoch)
        with TORCH_GENERATOR:
            torch.manual_seed(noise_seed(trainer, begin))
        trainer.cursor.fill_(begin % trainer.times.epoch)
        if trainer.source.streams:
            for images, labels in fetched_ahead(trainer, begin, end):
                learn(trainer, images, labels)
        else:
            for _ in range(begin, end):
                advance()
    return trainer.group.total(trainer.loss.clone()).item() / (last - first)


def noise_seed(trainer: Trainer, begin: int) -> int:
    """The seed of a network's own noise, such as dropout; every member of a group has another."""
    rank = trainer.group.rank
    return seed(trainer.replicate, "noise", begin, *([rank] if rank else []))


def step(trainer: Trainer) -> None:
    """One step at the cursor: the batch, then `learn`; all it needs is already on the device."""
    batch = trainer.times.batch
    own = torch.arange(batch, device=trainer.cursor.device)[trainer.group.part(batch)]
    positions = trainer.cursor * batch + own
    indices = trainer.order[positions]
    images = trainer.source.batch(indices, None if trainer.draws is None else trainer.draws[positions])
    learn(trainer, images, trainer.source.labels[indices])


def learn(trainer: Trainer, images: Tensor, labels: Tensor) -> None:
    """Forward, backward, optimizer; the cursor moves on."""
    with autocast(trainer.recipe.precision, images.device):
        logits = trainer.forward(images)
    loss = functional.cross_entropy(logits.to(trainer.loss.dtype), labels)
    gradients = gradients_of(loss, trainer.parameters, trainer.group, trainer.times.batch)
    with torch.no_grad():
        rate = trainer.rates.index_select(0, trainer.cursor).squeeze()
        aligned = laid_out_like(gradients, trainer.parameters)
        optimizer_step(
            trainer.recipe, trainer.parameters, aligned, trainer.optimizer_state, trainer.masks, rate
        )
        trainer.loss.add_(loss, alpha=trainer.group.share(trainer.times.batch))
        trainer.cursor.add_(1)


def fetched_ahead(trainer: Trainer, begin: int, end: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and labels of these steps; the next images are read while the present ones are learnt."""
    order, draws = epoch_draws(trainer, begin // trainer.times.epoch)
    batch, own = trainer.times.batch, trainer.group.part(trainer.times.batch)
    starts = [batch * place for place in _places(trainer, begin, end)]
    rows = [slice(start + own.start, start + own.stop) for start in starts]
    plan = [(torch.from_numpy(order[row]), None if draws is None else draws[row]) for row in rows]
    for (indices, _), images in zip(plan, batches(trainer.source, plan), strict=True):
        yield images, trainer.source.labels[indices.to(images.device)]


def _places(trainer: Trainer, begin: int, end: int) -> range:
    first = begin % trainer.times.epoch
    return range(first, first + end - begin)


def load_epoch(trainer: Trainer, epoch: int) -> None:
    """Move the order, the augmentation and the learning rates of one epoch to the device, all at once."""
    order, draws = epoch_draws(trainer, epoch)
    trainer.order.copy_(torch.from_numpy(order))
    first = epoch * trainer.times.epoch
    steps = range(first, first + trainer.times.epoch)
    rates = [learning_rate(trainer.recipe, trainer.times, step) for step in steps]
    trainer.rates.copy_(torch.tensor(rates, dtype=trainer.rates.dtype))
    if trainer.draws is not None and draws is not None:
        for target, values in zip(trainer.draws.tensors(), draws.tensors(), strict=True):
            target.copy_(values)


def epoch_draws(trainer: Trainer, epoch: int) -> tuple[NDArray[np.int64], Draws | None]:
    """The order and augmentation of an epoch for a trainer."""
    shape = trainer.source.image_shape
    return draw_epoch(trainer.recipe, trainer.times, trainer.replicate, trainer.subsample, shape, epoch)


def draw_epoch(
    recipe: Recipe,
    times: Timeline,
    replicate: int,
    subsample: NDArray[np.int64],
    image_shape: tuple[int, int, int],
    epoch: int,
) -> tuple[NDArray[np.int64], Draws | None]:
    """The order and augmentation of an epoch: functions of replicate and epoch, drawn on the host."""
    count = times.epoch * times.batch
    order = rng(replicate, "order", epoch).permutation(len(subsample))[:count]
    draws = draw(recipe.augmentation, count, image_shape, rng(replicate, "augmentation", epoch))
    return subsample[order], draws


def prepare(
    model: nn.Module,
    prunable: tuple[str, ...],
    recipe: Recipe,
    replicate: int,
    source: Source,
    subsample: NDArray[np.int64],
    group: ProcessGroup = ALONE,
) -> Trainer:
    """Put a network onto the device of its data, with masks of ones and nothing remembered.

    All members of a group prepare the same network and the same examples at the same time.
    """
    device = source.labels.device
    # Channels last is how the images come, and faster on CPU and GPU alike.
    model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    synchronise(model, group, device)
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
        order=torch.zeros(count, dtype=torch.int64, device=device),
        draws=None if draws is None else draws.to(device),
        rates=torch.zeros(times.epoch, dtype=parameters[0].dtype, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        loss=torch.zeros((), dtype=parameters[0].dtype, device=device),
        group=group,
        forward=together(model, group, device),
    )

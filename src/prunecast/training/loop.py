"""The plain training loop: the reference that every faster way of training is tested against."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunecast.data import Draws, batches, draw
from prunecast.spec import TORCH_GENERATOR, Recipe, rng, seed
from prunecast.training.device import Captured, autocast
from prunecast.training.optimizer import laid_out_like, optimizer_step
from prunecast.training.parallel import gradients_of
from prunecast.training.schedule import Timeline, learning_rate, stretches
from prunecast.training.trainer import Trainer, written_by


def train(trainer: Trainer, advance: Callable[[], None], first: int, last: int) -> float:
    """Train from step `first` up to but not including step `last`, and return the mean loss.

    `advance` does one step: see `stepper`. Within an epoch nothing waits for the device.
    """
    trainer.model.train()
    trainer.loss.zero_()
    for begin, end in stretches(trainer.times, first, last):
        load_epoch(trainer, begin // trainer.times.epoch)
        trainer.cursor.fill_(begin % trainer.times.epoch)
        with TORCH_GENERATOR:
            torch.manual_seed(noise_seed(trainer.replicate, begin, trainer.group.rank))
        if trainer.source.streams:
            for batch in prefetched(trainer, begin, end):
                step(trainer, batch)
        else:
            for _ in range(begin, end):
                advance()
    return trainer.group.total(trainer.loss.clone()).item() / (last - first)


def step(trainer: Trainer, batch: tuple[Tensor, Tensor] | None = None) -> None:
    """Forward, backward, optimizer step; the cursor moves on.

    `batch` holds images and labels; without it they are those at the cursor, and nothing waits for the host.
    """
    images, labels = batch_at_cursor(trainer) if batch is None else batch
    with autocast(trainer.recipe.precision, images.device):
        logits = trainer.forward(images)
    loss = trainer.loss_function(logits.to(trainer.loss.dtype), labels)
    gradients = gradients_of(loss, trainer.parameters, trainer.group, trainer.times.batch)
    with torch.no_grad():
        rate = trainer.rates.index_select(0, trainer.cursor).squeeze()
        aligned = laid_out_like(gradients, trainer.parameters)
        state, masks = trainer.optimizer_state, trainer.masks
        optimizer_step(trainer.rule, trainer.parameters, aligned, state, masks, rate)
        trainer.loss.add_(loss, alpha=trainer.group.share(trainer.times.batch))
        trainer.cursor.add_(1)


def batch_at_cursor(trainer: Trainer) -> tuple[Tensor, Tensor]:
    """The images and labels of this process at the cursor; all that this needs is on the device already."""
    batch = trainer.times.batch
    rows = torch.arange(batch, device=trainer.cursor.device)[trainer.group.part(batch)]
    positions = trainer.cursor * batch + rows
    indices = trainer.order[positions]
    images = trainer.source.batch(indices, None if trainer.draws is None else trainer.draws[positions])
    return images, trainer.source.labels[indices]


def stepper(trainer: Trainer, *, graph: bool = True) -> Callable[[], None]:
    """Return a function that does one step: a CUDA graph if the data is on a GPU, `step` itself otherwise."""
    capturable = trainer.cursor.is_cuda and not trainer.source.streams and trainer.group.size == 1
    plain = partial(step, trainer)
    return Captured(plain, written_by(trainer)) if graph and capturable else plain


def prefetched(trainer: Trainer, begin: int, end: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield images and labels of these steps; the next images are read while a step trains on the present ones."""
    order, draws = trainer.order.cpu(), None if trainer.draws is None else trainer.draws.to("cpu")
    batch, part = trainer.times.batch, trainer.group.part(trainer.times.batch)
    first = begin % trainer.times.epoch
    starts = [batch * place for place in range(first, first + end - begin)]
    rows = [slice(start + part.start, start + part.stop) for start in starts]
    plan = [(order[row], None if draws is None else draws[row]) for row in rows]
    for (indices, _), images in zip(plan, batches(trainer.source, plan), strict=True):
        yield images, trainer.source.labels[indices.to(images.device)]


def load_epoch(trainer: Trainer, epoch: int) -> None:
    """Copy the order, the augmentation and the learning rates of one epoch to the device."""
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
    """Draw the order and augmentation of an epoch of this trainer."""
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
    """Draw the order and augmentation of an epoch on the host; they depend on replicate and epoch alone."""
    count = times.epoch * times.batch
    order = rng(replicate, "order", epoch).permutation(len(subsample))[:count]
    draws = draw(recipe.augmentation, count, image_shape, rng(replicate, "augmentation", epoch))
    return subsample[order], draws


def noise_seed(replicate: int, begin: int, rank: int = 0) -> int:
    """Return the seed of a network's own noise, such as dropout, in the stretch that begins with a step.

    It differs between processes of a group.
    """
    return seed(replicate, "noise", begin, *([rank] if rank else []))

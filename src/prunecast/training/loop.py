"""The plain training loop and its evaluation: the reference that every faster way of training is tested against."""

import copy
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from prunecast.data import Draws, Source, batches, draw
from prunecast.spec import TORCH_GENERATOR, Precision, Recipe, rng, seed
from prunecast.training.device import Captured, autocast, replaced_tensor
from prunecast.training.optimizer import laid_out_like, optimizer_step, state_tensors
from prunecast.training.parallel import ALONE, ProcessGroup, gradients_of
from prunecast.training.schedule import Timeline, learning_rate, stretches
from prunecast.training.trainer import Trainer

MOST_EXAMPLES, MOST_PIXELS = 1000, 3_000_000
"""Limits of a batch in evaluation."""


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
    if not (graph and capturable):
        return plain
    if name := replaced_in_a_step(trainer):
        warnings.warn(
            f"The step runs without a CUDA graph, which is slower: the network replaces its tensor {name!r}. "
            "Change it in place instead, for example with copy_ or lerp_.",
            stacklevel=2,
        )
        return plain
    state = state_tensors(trainer.optimizer_state)
    changed = [*trainer.parameters, *trainer.model.buffers(), *state, trainer.cursor, trainer.loss]
    return Captured(plain, changed)


@torch.no_grad()
def replaced_in_a_step(trainer: Trainer) -> str | None:
    """The name of a tensor that the forward pass replaces instead of changing it in place; None if there is none."""
    trial, device = copy.deepcopy(trainer.model).train(), trainer.cursor.device
    before = {**dict(trial.named_parameters()), **dict(trial.named_buffers())}
    images = trainer.source.batch(torch.zeros(2, dtype=torch.int64, device=device), None)
    same_numbers = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    with TORCH_GENERATOR, same_numbers, autocast(trainer.recipe.precision, device):
        trial(images)
    return replaced_tensor(before, {**dict(trial.named_parameters()), **dict(trial.named_buffers())})


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
    shape, replicate = trainer.source.image_shape, trainer.replicate
    order, draws = draw_epoch(trainer.recipe, trainer.times, replicate, trainer.subsample, shape, epoch)
    trainer.order.copy_(torch.from_numpy(order))
    first = epoch * trainer.times.epoch
    steps = range(first, first + trainer.times.epoch)
    rates = [learning_rate(trainer.recipe, trainer.times, step) for step in steps]
    trainer.rates.copy_(torch.tensor(rates, dtype=trainer.rates.dtype))
    if trainer.draws is not None and draws is not None:
        for target, values in zip(trainer.draws.tensors(), draws.tensors(), strict=True):
            target.copy_(values)


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


@dataclass(frozen=True, kw_only=True)
class Score:
    """The result of an evaluation."""

    error: float
    """The share of examples whose largest logit is not the label's."""
    loss: float
    """The mean cross-entropy."""


def evaluation_batch(source: Source) -> int:
    """Return how many examples to evaluate at once: a thousand small images, fewer large ones to save memory."""
    _, height, width = source.image_shape
    return max(1, min(MOST_EXAMPLES, MOST_PIXELS // (height * width)))


@torch.no_grad()
def evaluate(
    model: nn.Module, source: Source, indices: Tensor, precision: Precision, group: ProcessGroup = ALONE
) -> Score:
    """Evaluate on the examples of these indices; the counts stay on the device until the end.

    Each process of a group evaluates its part, and all get the score of the whole.
    """
    device = source.labels.device
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    was_training = model.training
    model.eval()
    part = indices[group.part(len(indices))].to("cpu" if source.streams else device)
    plan = [(chosen, None) for chosen in torch.split(part, evaluation_batch(source)) if len(chosen)]
    for (chosen, _), images in zip(plan, batches(source, plan), strict=True):
        with autocast(precision, device):
            logits = model(images).float()
        labels = source.labels[chosen.to(device)]
        wrong += (logits.argmax(1) != labels).sum()
        loss += functional.cross_entropy(logits, labels, reduction="sum")
    model.train(was_training)
    count = len(indices)
    return Score(error=group.total(wrong).item() / count, loss=group.total(loss).item() / count)

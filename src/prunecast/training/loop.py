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
from prunecast.training.optimizer import Slots, laid_out_like, optimizer_step, zero_slots
from prunecast.training.precision import autocast
from prunecast.training.schedule import Timeline, learning_rate, stretches, timeline
from prunecast.training.team import ALONE, Team, gradients_of, together


@dataclass(frozen=True, kw_only=True)
class Bench:
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
    slots: Slots
    order: Tensor
    """The indices of one epoch's examples, in the order of their use."""
    draws: Draws | None
    """The augmentation of one epoch's examples."""
    rates: Tensor
    """The learning rate of every step of one epoch."""
    cursor: Tensor
    """The number of the step within the epoch, a tensor of one element."""
    loss: Tensor
    """The sum of the losses since it was last set to zero; of a team, this member's share of it."""
    team: Team
    forward: nn.Module
    """What is called on images in training: the model, or what synchronises it with the rest of the team."""


def train(bench: Bench, advance: Callable[[], None], first: int, last: int) -> float:
    """Train from step `first` to before step `last` and return the mean loss.

    `advance` does one step: `lambda: step(bench)`, or the same captured as a CUDA graph. Between the ends of
    an epoch nothing waits for the device. Images that come from files are fetched one batch ahead.
    """
    bench.model.train()
    bench.loss.zero_()
    for begin, end in stretches(bench.times, first, last):
        load_epoch(bench, begin // bench.times.epoch)
        with TORCH_GENERATOR:
            torch.manual_seed(noise_seed(bench, begin))
        bench.cursor.fill_(begin % bench.times.epoch)
        if bench.source.streams:
            for images, labels in fetched_ahead(bench, begin, end):
                learn(bench, images, labels)
        else:
            for _ in range(begin, end):
                advance()
    return bench.team.total(bench.loss.clone()).item() / (last - first)


def noise_seed(bench: Bench, begin: int) -> int:
    """The seed of a network's own noise, such as dropout; every member of a team has another."""
    rank = bench.team.rank
    return seed(bench.replicate, "noise", begin, *([rank] if rank else []))


def step(bench: Bench) -> None:
    """One step at the cursor: the batch, then `learn`; all it needs is already on the device."""
    batch = bench.times.batch
    own = torch.arange(batch, device=bench.cursor.device)[bench.team.part(batch)]
    positions = bench.cursor * batch + own
    indices = bench.order[positions]
    images = bench.source.batch(indices, None if bench.draws is None else bench.draws[positions])
    learn(bench, images, bench.source.labels[indices])


def learn(bench: Bench, images: Tensor, labels: Tensor) -> None:
    """Forward, backward, optimizer; the cursor moves on."""
    with autocast(bench.recipe.precision, images.device):
        logits = bench.forward(images)
    loss = functional.cross_entropy(logits.to(bench.loss.dtype), labels)
    gradients = gradients_of(loss, bench.parameters, bench.team, bench.times.batch)
    with torch.no_grad():
        rate = bench.rates.index_select(0, bench.cursor).squeeze()
        aligned = laid_out_like(gradients, bench.parameters)
        optimizer_step(bench.recipe, bench.parameters, aligned, bench.slots, bench.masks, rate)
        bench.loss.add_(loss, alpha=bench.team.share(bench.times.batch))
        bench.cursor.add_(1)


def fetched_ahead(bench: Bench, begin: int, end: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and labels of these steps; the next images are read while the present ones are learnt."""
    order, draws = epoch_draws(bench, begin // bench.times.epoch)
    batch, own = bench.times.batch, bench.team.part(bench.times.batch)
    starts = [batch * place for place in _places(bench, begin, end)]
    rows = [slice(start + own.start, start + own.stop) for start in starts]
    plan = [(torch.from_numpy(order[row]), None if draws is None else draws[row]) for row in rows]
    for (indices, _), images in zip(plan, batches(bench.source, plan), strict=True):
        yield images, bench.source.labels[indices.to(images.device)]


def _places(bench: Bench, begin: int, end: int) -> range:
    first = begin % bench.times.epoch
    return range(first, first + end - begin)


def load_epoch(bench: Bench, epoch: int) -> None:
    """Move the order, the augmentation and the learning rates of one epoch to the device, all at once."""
    order, draws = epoch_draws(bench, epoch)
    bench.order.copy_(torch.from_numpy(order))
    first = epoch * bench.times.epoch
    steps = range(first, first + bench.times.epoch)
    rates = [learning_rate(bench.recipe, bench.times, step) for step in steps]
    bench.rates.copy_(torch.tensor(rates, dtype=bench.rates.dtype))
    if bench.draws is not None and draws is not None:
        for target, values in zip(bench.draws.tensors(), draws.tensors(), strict=True):
            target.copy_(values)


def epoch_draws(bench: Bench, epoch: int) -> tuple[NDArray[np.int64], Draws | None]:
    """The order and augmentation of an epoch for a bench."""
    shape = bench.source.image_shape
    return draw_epoch(bench.recipe, bench.times, bench.replicate, bench.subsample, shape, epoch)


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
    team: Team = ALONE,
) -> Bench:
    """Put a network onto the device of its data, with masks of ones and nothing remembered.

    All members of a team prepare the same network and the same examples at the same time.
    """
    device = source.labels.device
    # Channels last is how the images come, and faster on CPU and GPU alike.
    model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    synchronise(model, team, device)
    names, parameters = zip(*model.named_parameters(), strict=True)
    times = timeline(recipe, len(subsample))
    count = times.epoch * times.batch
    draws = draw(recipe.augmentation, count, source.image_shape, rng(replicate, "augmentation", 0))
    return Bench(
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
        slots=zero_slots(recipe, list(parameters)),
        order=torch.zeros(count, dtype=torch.int64, device=device),
        draws=None if draws is None else draws.to(device),
        rates=torch.zeros(times.epoch, dtype=parameters[0].dtype, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        loss=torch.zeros((), dtype=parameters[0].dtype, device=device),
        team=team,
        forward=together(model, team, device),
    )

"""The plain training loop: the reference that every faster way of training is tested against."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from prunecast.data import Draws, Source, draw
from prunecast.spec import Recipe
from prunecast.spec.streams import rng, seed
from prunecast.training.optimizer import Slots, optimizer_step, zero_slots
from prunecast.training.precision import autocast
from prunecast.training.schedule import Timeline, learning_rate, stretches, timeline


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
    """The sum of the losses since it was last set to zero."""


def train(bench: Bench, advance: Callable[[], None], first: int, last: int) -> float:
    """Train from step `first` to before step `last` and return the mean loss.

    `advance` does one step: `lambda: step(bench)`, or the same captured as a CUDA graph. Between the ends of
    an epoch nothing waits for the device.
    """
    bench.model.train()
    bench.loss.zero_()
    for begin, end in stretches(bench.times, first, last):
        load_epoch(bench, begin // bench.times.epoch)
        torch.manual_seed(seed(bench.replicate, "noise", begin))
        bench.cursor.fill_(begin % bench.times.epoch)
        for _ in range(begin, end):
            advance()
    return bench.loss.item() / (last - first)


def step(bench: Bench) -> None:
    """One step at the cursor: forward, backward, optimizer; all it needs is already on the device."""
    batch = bench.times.batch
    positions = bench.cursor * batch + torch.arange(batch, device=bench.cursor.device)
    indices = bench.order[positions]
    images = bench.source.batch(indices, None if bench.draws is None else bench.draws[positions])
    with autocast(bench.recipe.precision, images.device):
        logits = bench.model(images.contiguous(memory_format=layout(images.device)))
    loss = functional.cross_entropy(logits.float(), bench.source.labels[indices])
    gradients = torch.autograd.grad(loss, bench.parameters, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        rate = bench.rates.index_select(0, bench.cursor).squeeze()
        optimizer_step(bench.recipe, bench.parameters, list(gradients), bench.slots, bench.masks, rate)
        bench.loss.add_(loss)
        bench.cursor.add_(1)


def layout(device: torch.device) -> torch.memory_format:
    """Channels last is what the tensor cores of a GPU want; on CPU it is slower for narrow networks."""
    return torch.channels_last if device.type == "cuda" else torch.contiguous_format


def load_epoch(bench: Bench, epoch: int) -> None:
    """Move the order, the augmentation and the learning rates of one epoch to the device, all at once."""
    order, draws = epoch_draws(bench, epoch)
    bench.order.copy_(torch.from_numpy(order))
    first = epoch * bench.times.epoch
    steps = range(first, first + bench.times.epoch)
    bench.rates.copy_(torch.tensor([learning_rate(bench.recipe, bench.times, step) for step in steps]))
    if bench.draws is not None and draws is not None:
        for field in dataclasses.fields(draws):
            if (values := getattr(draws, field.name)) is not None:
                getattr(bench.draws, field.name).copy_(values)


def epoch_draws(bench: Bench, epoch: int) -> tuple[NDArray[np.int64], Draws | None]:
    """The order and augmentation of an epoch: functions of replicate and epoch, drawn on the host."""
    count = bench.times.epoch * bench.times.batch
    order = rng(bench.replicate, "order", epoch).permutation(len(bench.subsample))[:count]
    stream = rng(bench.replicate, "augmentation", epoch)
    draws = draw(bench.recipe.augmentation, count, bench.source.image_shape, stream)
    return bench.subsample[order], draws


def prepare(
    model: nn.Module,
    prunable: tuple[str, ...],
    recipe: Recipe,
    replicate: int,
    source: Source,
    subsample: NDArray[np.int64],
) -> Bench:
    """Put a network onto the device of its data, with masks of ones and nothing remembered."""
    device = source.labels.device
    model = model.to(device=device, memory_format=layout(device))  # type: ignore[call-overload]
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
    )

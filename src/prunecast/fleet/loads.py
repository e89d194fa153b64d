"""Which steps of a level have their examples on the device at the same time."""

from dataclasses import dataclass

import torch

from prunecast.fleet.members import EpochData
from prunecast.fleet.runner import Runner, to_device
from prunecast.pruning import Chain
from prunecast.training import Timeline, learning_rate


@dataclass(frozen=True, kw_only=True)
class Load:
    """Steps whose examples lie on the device at the same time: an epoch, or several short ones, or part of them."""

    begin: int
    end: int
    epochs: range
    start: int
    """The first step of the first epoch."""


def loads(times: Timeline, first: int, last: int, *, room: int, cut: int | None) -> list[Load]:
    """Cut the steps from `first` to before `last` so that the epochs of each piece fit into `room` steps.

    Short epochs come together, because every load costs the host some milliseconds. No piece crosses `cut`.
    """
    many, found = max(1, room // times.epoch), []
    while first < last:
        epoch = first // times.epoch
        end = min(last, (epoch + many) * times.epoch)
        if cut is not None and first < cut < end:
            end = cut
        epochs = range(epoch, -(-end // times.epoch))
        found.append(Load(begin=first, end=end, epochs=epochs, start=epoch * times.epoch))
        first = end
    return found


@torch.no_grad()
def put(runner: Runner, epochs: EpochData, chain: Chain, load: Load) -> None:
    """Bring examples, augmentation and learning rates to the device, and the cursor to where the load begins."""
    bench, device, times = runner.bench, runner.bench.cursor.device, chain.times
    count = epochs.order.shape[1]
    bench.order[:, :count].copy_(to_device(epochs.order, device))
    if bench.draws is not None and epochs.draws is not None:
        for target, values in zip(bench.draws.tensors(), epochs.draws.tensors(), strict=True):
            target[:, :count].copy_(to_device(values, device))
    steps = range(load.start, load.start + len(load.epochs) * times.epoch)
    rates = [learning_rate(chain.spec.recipe, times, step) for step in steps]
    bench.rates[: len(rates)].copy_(to_device(torch.tensor(rates, dtype=bench.rates.dtype), device))
    bench.cursor.fill_(load.begin - load.start)

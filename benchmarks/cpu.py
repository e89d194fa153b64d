"""Steps of the plain loop on the CPU: channels last against contiguous images, and one thread against several.

    python benchmarks/cpu.py              # about four minutes on a quiet machine with two cores

The variants of a network take turns, and the ratio is the median over the turns. Memory formats are compared in CPU
time of one thread, so other work on the machine matters little. Threads can only be compared in wall-clock time: on
busy cores they wait for each other, so the load is printed. Networks are built in, or written below as users do.
"""

import argparse
import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from torch import nn

from prunecast import families
from prunecast.data import MemorySource, cores, from_arrays
from prunecast.spec import RECIPES
from prunecast.training import Trainer, initial_state, prepare, settings, stepper, train

CPU = torch.device("cpu")
CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Network:
    """A network and its images."""

    family: str
    depth: int
    width: float
    side: int
    batch: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of its images."""
        return (1 if self.family == "digits_cnn" else 3, self.side, self.side)


NETWORKS = (
    Network(family="digits_cnn", depth=3, width=1, side=8, batch=64),
    Network(family="cifar_resnet", depth=8, width=0.25, side=32, batch=128),
    Network(family="cifar_resnet", depth=20, width=1, side=32, batch=64),
    Network(family="vgg", depth=16, width=0.25, side=32, batch=64),
    Network(family="cpu:depthwise", depth=6, width=1, side=32, batch=64),
    Network(family="cpu:encoder", depth=3, width=1, side=32, batch=64),
)


def depthwise(depth: int, width: float, num_classes: int) -> nn.Module:
    """Blocks of depthwise and pointwise convolutions, as in MobileNet."""
    channels = round(64 * width)
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, stride=2, padding=1)]
    for _ in range(depth):
        layers += [
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
            nn.Conv2d(channels, channels, 1),
        ]
        layers += [nn.BatchNorm2d(channels), nn.ReLU6()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


class Encoder(nn.Module):
    """A vision transformer of torch's own layers, with patches of 4x4 pixels."""

    def __init__(self, depth: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 4, 4)
        layer = nn.TransformerEncoderLayer(channels, 4, 2 * channels, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        logits: torch.Tensor = self.head(self.encoder(self.patches(image).flatten(2).transpose(1, 2)).mean(1))
        return logits


def encoder(depth: int, width: float, num_classes: int) -> nn.Module:
    return Encoder(depth, 4 * round(16 * width), num_classes)


class ContiguousSource(MemorySource):
    """Images stored channel by channel."""

    def normalised(self, pixels: torch.Tensor) -> torch.Tensor:
        """The same values in torch's default memory format."""
        return super().normalised(pixels).contiguous()


def trainer_of(network: Network, *, contiguous: bool = False) -> Trainer:
    """A trainer on noise, two steps per epoch."""
    rng, count = np.random.default_rng(0), 2 * network.batch
    channels, side, _ = network.shape
    images = rng.integers(0, 256, (count, side, side, channels), dtype=np.uint8)
    labels = np.arange(count) % CLASSES
    halves = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    data = from_arrays(halves, device=CPU)
    model = families.build(
        network.family,
        depth=network.depth,
        width=network.width,
        num_classes=CLASSES,
        generator=torch.Generator().manual_seed(0),
        image_shape=network.shape,
    )
    recipe = dataclasses.replace(RECIPES["digits"], batch_size=network.batch)
    trainer = prepare(model, families.prunable(model), recipe, 0, data.train, np.arange(count))
    if not contiguous:
        return trainer
    source = trainer.source
    assert isinstance(source, MemorySource)
    trainer.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    parameters: list[torch.Tensor] = list(trainer.model.parameters())
    return dataclasses.replace(
        trainer,
        source=ContiguousSource(source.images, source.labels, mean=source.mean, std=1 / source.scale),
        parameters=parameters,
        masks=[
            None if mask is None else torch.ones_like(own)
            for own, mask in zip(parameters, trainer.masks, strict=True)
        ],
        optimizer_state=initial_state(recipe, parameters),
    )


def turns(ways: Sequence[Callable[[], object]], clock: Callable[[], float], count: int) -> list[list[float]]:
    """Seconds of every call, in turns, after one call of each that does not count."""
    for way in ways:
        way()
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(count):
        for way, own in zip(ways, seconds, strict=True):
            began = clock()
            way()
            own.append(clock() - began)
    return seconds


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of one over other, turn by turn."""
    return median(a / b for a, b in zip(one, other, strict=True))


def formats(network: Network, count: int) -> tuple[float, float]:
    """Milliseconds of a step with channels last, and how many times as long contiguous images take."""
    trainers = [trainer_of(network), trainer_of(network, contiguous=True)]
    steps = [(own, stepper(own)) for own in trainers]
    ways = [lambda own=own, step=step: train(own, step, 0, 2) for own, step in steps]
    with settings("fp32", CPU, 1):
        last, contiguous = turns(ways, time.thread_time, count)
    return 500 * median(last), ratio(contiguous, last)


def threads(network: Network, counts: Sequence[int], count: int) -> list[float]:
    """How many times faster a step is with so many threads than with one, on the clock."""
    trainer = trainer_of(network)
    step = stepper(trainer)

    def with_threads(number: int) -> float:
        torch.set_num_threads(number)
        return train(trainer, step, 0, 2)

    with settings("fp32", CPU, 1):
        ways = [lambda number=number: with_threads(number) for number in (1, *counts)]
        one, *several = turns(ways, time.perf_counter, count)
    return [ratio(one, own) for own in several]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--turns", type=int, default=20)
    given = parser.parse_args()
    counts = [number for number in (2, 4, 8, 16, 32) if number <= cores()]
    print(f"{cores()} cores, load {os.getloadavg()[0]:.1f}")
    head = "".join(f"{f'{number} threads':>12}" for number in counts)
    print(f"{'network':<28}{'batch':>6}{'ms per step':>13}{'contiguous':>12}{head}")
    for network in NETWORKS:
        name = f"{network.family} {network.depth}, width {network.width:g}"
        milliseconds, slower = formats(network, given.turns)
        faster = "".join(f"{own:>12.2f}" for own in threads(network, counts, given.turns))
        print(f"{name:<28}{network.batch:>6}{milliseconds:>13.1f}{slower:>12.2f}{faster}", flush=True)
    print(
        "contiguous: CPU time over that of channels last. threads: times as fast as one thread, on the clock."
    )


if __name__ == "__main__":
    main()

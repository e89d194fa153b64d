"""How long chains take one after the other: real steps of a few networks are timed, the rest is counted.

Timed are networks from the smallest to the largest. The time of a step of the others lies between these, by
multiply-adds on logarithmic axes. Where a whole batch would take the device long, fewer images are timed, and a
step counts as so many times longer.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from prunecast import families
from prunecast.catalog import FAMILIES
from prunecast.spec import ChainSpec
from prunecast.sweep.cost import TRAINING_WORK, evaluated_images, multiply_adds, training_steps
from prunecast.sweep.estimate_timing import between, noise_like, seconds_of
from prunecast.sweep.grid import PlannedChain
from prunecast.training import evaluate, prepare, settings, stepper, timeline, train

MOST_TIMED = 4
"""Networks of a kind that are timed."""
MOST_WORK = {"cpu": 5e9, "cuda": 2e13}
"""Multiply-adds of a step that is timed, forward and backward: well below a second of either."""
FEWEST = 2
"""Images of a step at the least, since batch norm needs some."""

Kind = tuple[str, str, str, int]
"""Family, dataset, recipe and batch: what networks share whose times are compared."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The measured speed of one network."""

    spec: ChainSpec
    batch: int
    step: float
    """Seconds of a training step."""
    look: float
    """Seconds of evaluating one image."""


def one_by_one(chains: Sequence[PlannedChain], device: torch.device) -> tuple[list[Timing], float]:
    """Time a few of the networks, and add up all trainings in seconds, each chain to its level cap."""
    specs: dict[Kind, list[ChainSpec]] = {}
    for chain in chains:
        specs.setdefault(_kind(chain.spec), []).append(chain.spec)
    timings = {
        kind: [time_network(spec, device) for spec in _chosen(members)] for kind, members in specs.items()
    }
    seconds = math.fsum(
        _chain_seconds(chain.spec, chain.rules.level_cap, timings[_kind(chain.spec)]) for chain in chains
    )
    return [one for own in timings.values() for one in own], seconds


def _kind(spec: ChainSpec) -> Kind:
    return (
        spec.family,
        spec.dataset,
        spec.recipe.name,
        timeline(spec.recipe, spec.num_examples).batch,
    )


def _size(spec: ChainSpec) -> float:
    return multiply_adds(spec.family, spec.depth, spec.width)


def _chosen(specs: Sequence[ChainSpec]) -> list[ChainSpec]:
    """The smallest network, the largest, and some between them in even steps."""
    sizes = sorted({_size(spec): spec for spec in specs}.items())
    count = min(MOST_TIMED, len(sizes))
    places = np.linspace(0, len(sizes) - 1, count).round().astype(int)
    return [sizes[place][1] for place in places]


def time_network(spec: ChainSpec, device: torch.device) -> Timing:
    """Time real steps and a real evaluation of one network on images of noise."""
    whole = timeline(spec.recipe, spec.num_examples).batch
    batch = timed_images(spec, whole, device.type)
    data = noise_like(spec, 2 * batch, device)
    recipe = dataclasses.replace(spec.recipe, batch_size=batch)
    model = families.build(
        spec.family,
        depth=spec.depth,
        width=spec.width,
        num_classes=data.num_classes,
        generator=torch.Generator().manual_seed(0),
        image_shape=data.train.image_shape,
    )
    bench = prepare(model, families.prunable(model), recipe, 0, data.train, np.arange(2 * batch))
    advance = stepper(bench)
    everything = torch.arange(len(data.test))
    with settings(recipe.precision, device, spec.threads):
        step = seconds_of(lambda: train(bench, advance, 0, 2)) / 2
        look = seconds_of(lambda: evaluate(bench.model, data.test, everything, recipe.precision))
    return Timing(spec=spec, batch=whole, step=step * whole / batch, look=look / len(data.test))


def timed_images(spec: ChainSpec, batch: int, device: str) -> int:
    """How many images of a batch are timed: all, unless that is more work than there is patience for."""
    work = TRAINING_WORK * _size(spec) * _pixels(spec)
    return min(batch, max(FEWEST, int(MOST_WORK.get(device, MOST_WORK["cpu"]) / work)))


def _pixels(spec: ChainSpec) -> float:
    """How many times the pixels of the images that the family was made for the images of a chain have."""
    family = FAMILIES.get(spec.family)
    if family is None or spec.image_size is None:
        return 1.0
    return spec.image_size**2 / (family.image_shape[1] * family.image_shape[2])


def _chain_seconds(spec: ChainSpec, level_cap: int, timings: Sequence[Timing]) -> float:
    step = between(_size(spec), [(_size(one.spec), one.step) for one in timings])
    look = between(_size(spec), [(_size(one.spec), one.look) for one in timings])
    trained = training_steps(spec, 0) + level_cap * training_steps(spec, 1)
    return trained * step + (level_cap + 1) * evaluated_images(spec) * look

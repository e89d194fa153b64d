"""How long a plan takes on the device at hand: real steps are timed, and the rest is counted.

Timed are a few of the plan's networks, from the smallest to the largest, with images of noise in the shape of
the data (the time of a step does not depend on what the images show). The time of a step of the others lies
between these, by multiply-adds on logarithmic axes. Where a whole batch would take the device long, fewer images
are timed, and a step counts as so many times longer.
"""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from prunecast import families
from prunecast.architectures import FAMILIES
from prunecast.data import Dataset
from prunecast.data.load import from_arrays
from prunecast.spec import ChainSpec
from prunecast.sweep.cost import TRAINING, evaluated, multiply_adds, steps
from prunecast.sweep.facts import facts_of
from prunecast.sweep.plan import Plan
from prunecast.sweep.work import torch_device
from prunecast.training import evaluate, prepare, stepper, timeline, train
from prunecast.training.precision import settings

MOST_TIMED = 4
"""Networks of a kind that are timed."""
PATIENCE = 0.4
"""Seconds that one network is timed for, and a step more."""
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


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """How long a plan takes at most."""

    device: str
    timings: tuple[Timing, ...]
    seconds: float
    """Of all trainings one after the other, each chain to its level cap."""


def estimate(plan: Plan, device: str = "cpu") -> Estimate:
    """Time a few networks of a plan on a device and add up its trainings."""
    place = torch_device(device)
    specs: dict[Kind, list[ChainSpec]] = {}
    for chain in plan.chains:
        specs.setdefault(_kind(chain.spec), []).append(chain.spec)
    timings = {
        kind: [time_network(spec, place) for spec in _chosen(members)] for kind, members in specs.items()
    }
    seconds = sum(
        _chain_seconds(chain.spec, chain.rules.level_cap, timings[_kind(chain.spec)]) for chain in plan.chains
    )
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "cpu"
    return Estimate(
        device=name, timings=tuple(one for own in timings.values() for one in own), seconds=seconds
    )


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
        step = _timed(lambda: train(bench, advance, 0, 2)) / 2
        look = _timed(lambda: evaluate(bench.model, data.test, everything, recipe.precision))
    return Timing(spec=spec, batch=whole, step=step * whole / batch, look=look / len(data.test))


def timed_images(spec: ChainSpec, batch: int, device: str) -> int:
    """How many images of a batch are timed: all, unless that is more work than there is patience for."""
    work = TRAINING * _size(spec) * _pixels(spec)
    return min(batch, max(FEWEST, int(MOST_WORK.get(device, MOST_WORK["cpu"]) / work)))


def _pixels(spec: ChainSpec) -> float:
    """How many times the pixels of the images that the family was made for the images of a chain have."""
    family = FAMILIES.get(spec.family)
    if family is None or spec.image_size is None:
        return 1.0
    return spec.image_size**2 / (family.image_shape[1] * family.image_shape[2])


def _timed(function: Callable[[], object]) -> float:
    """The mean time of a call that waits for the device, over enough calls to be worth believing.

    The first call warms up and does not count, unless it took so long that another would tell no more.
    """
    began = time.perf_counter()
    function()
    first = time.perf_counter() - began
    if first > 2 * PATIENCE:
        return first
    began, calls = time.perf_counter(), 0
    while calls < 2 or time.perf_counter() - began < PATIENCE / 2:
        function()
        calls += 1
    return (time.perf_counter() - began) / calls


def noise_like(spec: ChainSpec, count: int, device: torch.device) -> Dataset:
    """Noise in the shape of a dataset; of own data, in the shape that the family was made for."""
    facts = facts_of(spec)
    family = FAMILIES.get(spec.family)
    shape = facts.image_shape if facts else family.image_shape if family else (3, 32, 32)
    side = (spec.image_size, spec.image_size) if spec.image_size else shape[1:]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, *side, shape[0]), dtype=np.uint8)
    labels = np.arange(count) % (facts.num_classes if facts else 10)
    halves = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    return from_arrays(halves, device=device)


def _chain_seconds(spec: ChainSpec, level_cap: int, timings: Sequence[Timing]) -> float:
    step = _between(spec, [(_size(one.spec), one.step) for one in timings])
    look = _between(spec, [(_size(one.spec), one.look) for one in timings])
    trained = steps(spec, 0) + level_cap * steps(spec, 1)
    return trained * step + (level_cap + 1) * evaluated(spec) * look


def _between(spec: ChainSpec, measured: Sequence[tuple[float, float]]) -> float:
    sizes, times = zip(*measured, strict=True)
    return math.exp(float(np.interp(math.log(_size(spec)), np.log(sizes), np.log(times))))

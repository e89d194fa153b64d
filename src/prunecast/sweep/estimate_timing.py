"""What every estimate is made of: noise in the shape of the data, the time of a call, and what lies between two."""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from prunecast.catalog import FAMILIES, find_dataset
from prunecast.data import Dataset, from_arrays
from prunecast.spec import ChainSpec

PATIENCE = 0.4
"""Seconds that one thing is timed for, and a call more."""


def seconds_of(function: Callable[[], object]) -> float:
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


def between(size: float, measured: Sequence[tuple[float, float]]) -> float:
    """The time at a size, on the line through the measured (size, time) on logarithmic axes.

    A fixed time and one in proportion to the size add up to a curve below that line. Beyond the measured sizes it
    is that of the nearest.
    """
    sizes, times = zip(*sorted(dict(measured).items()), strict=True)
    return math.exp(float(np.interp(math.log(size), np.log(sizes), np.log(times))))


def noise_like(spec: ChainSpec, count: int, device: torch.device) -> Dataset:
    """Noise in the shape of a dataset; of own data, in the shape that the family was made for."""
    facts = find_dataset(spec.dataset, spec.loader)
    family = FAMILIES.get(spec.family)
    shape = facts.image_shape if facts else family.image_shape if family else (3, 32, 32)
    side = (spec.image_size, spec.image_size) if spec.image_size else shape[1:]
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (count, *side, shape[0]), dtype=np.uint8)
    labels = np.arange(count) % (facts.num_classes if facts else 10)
    halves = {"train_images": images, "train_labels": labels, "test_images": images, "test_labels": labels}
    return from_arrays(halves, device=device)

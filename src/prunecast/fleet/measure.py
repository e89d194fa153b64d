"""The budget of widths that suits the device at hand: a few sizes of packs are tried out."""

import logging
import time
from collections.abc import Sequence

import torch

from prunecast.fleet.build import Builder
from prunecast.fleet.gates import DEVICE, MODULES
from prunecast.fleet.members import Kind
from prunecast.fleet.options import best_budget
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape

LOG = logging.getLogger(__name__)
STEPS = 24


def measured_budget(
    builder: Builder, kind: Kind, widths: Sequence[float], sizes: Sequence[float], dtype: torch.dtype
) -> float:
    """Time packs of some sizes, uncompiled; the usual one is kept unless another is clearly better."""
    times: dict[float, float] = {}
    for size in sizes:
        try:
            times[size] = _time(builder, kind, _sample(sorted(widths, reverse=True), size), dtype)
        except torch.OutOfMemoryError:
            break
    chosen = best_budget(times)
    told = ", ".join(f"{size:g}: {1e3 * seconds:.2f} ms" for size, seconds in times.items())
    LOG.info("Budget of widths %g (a step per unit of width takes %s).", chosen, told)
    return chosen


def _sample(widths: Sequence[float], size: float) -> Shape:
    """Slots like the members, in their proportions, up to a total width."""
    shape: list[float] = []
    while sum(shape) < size:
        shape.append(widths[len(shape) % len(widths)])
    return tuple(sorted(shape, reverse=True))


def _time(builder: Builder, kind: Kind, shape: Shape, dtype: torch.dtype) -> float:
    """Seconds of a step over the widths of a pack."""
    device = kind.dataset.train.labels.device
    with MODULES.alone(), DEVICE.alone():
        runner = builder.runner(kind, shape, builder.prototype(kind, shape, dtype), compiled=False)
        steps = min(len(runner.bench.rates), STEPS)
        torch.cuda.synchronize(device)
        seconds = [_advance(runner, steps) / steps / sum(shape) for _ in range(2)]
    del runner
    torch.cuda.empty_cache()
    return min(seconds)


def _advance(runner: Runner, steps: int) -> float:
    with runner.current():
        runner.bench.cursor.zero_()
        runner.rest()
        began = time.perf_counter()
        runner.advance(steps)
        runner.rest()
    return time.perf_counter() - began

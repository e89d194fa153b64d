"""The budget of widths that suits the device at hand: a few sizes of packs are tried out."""

import logging
import time
from collections.abc import Sequence

import torch

from prunecast.fleet.build import Builder
from prunecast.fleet.gates import DEVICE, MODULES
from prunecast.fleet.members import Kind
from prunecast.fleet.options import BUDGET, best_budget
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape

LOG = logging.getLogger(__name__)
STEPS = 24


def measured_budget(
    builder: Builder, kind: Kind, widths: Sequence[float], sizes: Sequence[float], dtype: torch.dtype
) -> float:
    """Time packs of some sizes, uncompiled; the usual one is kept unless another is clearly better.

    A pack that cannot be built is no reason to end a fleet: whoever trains it finds out which member is to blame.
    """
    times: dict[float, float] = {}
    for size in sizes:
        try:
            times[size] = _time(builder, kind, _sample(sorted(widths, reverse=True), size), dtype)
        except torch.OutOfMemoryError:
            break
        except Exception as failure:
            LOG.warning(
                "Packs could not be timed, so their budget of widths is the usual %g: %r", BUDGET, failure
            )
            return BUDGET
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
    """Seconds of a step over the widths of a pack, or of several small ones side by side on their streams."""
    device = kind.device
    with MODULES.alone(), DEVICE.alone():
        prototype = builder.prototype(kind, shape, dtype)
        packs = max(1, round(BUDGET / sum(shape)))
        runners = [builder.runner(kind, shape, prototype, compiled=False) for _ in range(packs)]
        steps = min(len(runners[0].bench.rates), STEPS)
        torch.cuda.synchronize(device)
        seconds = [_advance(runners, steps) / steps / sum(shape) / packs for _ in range(2)]
    del runners
    torch.cuda.empty_cache()
    return min(seconds)


def _advance(runners: Sequence[Runner], steps: int) -> float:
    for runner in runners:
        with runner.current():
            runner.bench.cursor.zero_()
        runner.rest()
    began = time.perf_counter()
    for runner in runners:
        with runner.current():
            runner.advance(steps)
    for runner in runners:
        runner.rest()
    return time.perf_counter() - began

"""Packs on the device at hand, built as a fleet builds them and timed side by side on noise.

They are captured as graphs on a GPU. A fleet begins with steps as they are written, and compiles where that pays, which
takes up to a minute a shape; so here packs are timed as they are written, and only chosen ones compiled.
"""

import logging
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np
import torch

from prunecast.data import draw
from prunecast.errors import PrunecastError
from prunecast.fleet.bench import PackBench
from prunecast.fleet.build import Builder, network
from prunecast.fleet.evaluate import IMAGES_AT_ONCE, evaluate_pack
from prunecast.fleet.members import Kind
from prunecast.fleet.runner import STEPS_A_GRAPH, Runner, renew
from prunecast.fleet.shapes import Shape
from prunecast.spec import rng
from prunecast.sweep.estimate_timing import PATIENCE, seconds_of
from prunecast.training import settings

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Crew:
    """Packs of one kind that train at the same time, each on its own stream."""

    kind: Kind
    shapes: tuple[Shape, ...]

    @property
    def width(self) -> float:
        """The widths of all networks in all packs."""
        return sum(map(sum, self.shapes))


@dataclass(frozen=True, kw_only=True)
class PackTiming:
    """The measured speed of a crew."""

    crew: Crew
    """The packs that were timed: fewer or narrower ones where the memory holds no more."""
    step: float
    """Seconds in which every pack does a step."""
    look: float
    """Seconds in which every pack looks at one more image with each of its networks."""
    start: float
    """Seconds of building the packs, compiling included."""
    compiled: bool = False


def time_crew(crew: Crew, builder: Builder) -> PackTiming:
    """Time real steps and a real evaluation of a crew; a pack too large for the memory is halved."""
    device, shapes = crew.kind.device, crew.shapes
    try:
        return _timed(crew, builder, compiled=False)
    except torch.OutOfMemoryError as failure:
        if len(shapes) == len(shapes[0]) == 1:
            where = f"{crew.kind.family} of depth {crew.kind.depth} and width {shapes[0][0]:g}"
            remedy = "take it out of the plan, or give its recipe a smaller batch"
            raise PrunecastError(f"{where} does not fit into the memory of {device}; {remedy}.") from failure
    finally:
        _let_go(device)
    fewer = shapes[:-1] or (shapes[0][::2],)
    return time_crew(replace(crew, shapes=fewer), builder)


def time_compiled(crew: Crew, builder: Builder) -> PackTiming | None:
    """The same for compiled packs, or None where that fails: it is told, and the fleet would go on, too."""
    try:
        found = _timed(crew, builder, compiled=True)
    except Exception as failure:
        LOG.warning("Packs are reckoned uncompiled: %r", failure)
        return None
    finally:
        _let_go(crew.kind.device)
    return found if found.compiled else None


def _let_go(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _timed(crew: Crew, builder: Builder, *, compiled: bool) -> PackTiming:
    device = crew.kind.device
    with settings(crew.kind.recipe.precision, device, 1, trials=False):
        began = time.perf_counter()
        runners = _runners(crew, builder, compiled=compiled)
        start = time.perf_counter() - began
        once = seconds_of(partial(_advance, runners, 1))
        steps = max(1, min(STEPS_A_GRAPH, len(runners[0].bench.rates), int(PATIENCE / once)))
        step = seconds_of(partial(_advance, runners, steps)) / steps if steps > 1 else once
        look = sum(map(_look, runners))
    whole = all(runner.way == "compiled" for runner in runners)
    return PackTiming(crew=crew, step=step, look=look, start=start, compiled=whole)


def _runners(crew: Crew, builder: Builder, *, compiled: bool) -> list[Runner]:
    kind = crew.kind
    states = {width: network(kind, width).state_dict() for width in set(chain(*crew.shapes))}
    prototypes = {shape: builder.prototype(kind, shape, torch.float32) for shape in set(crew.shapes)}
    runners = [builder.runner(kind, shape, prototypes[shape], compiled=compiled) for shape in crew.shapes]
    for runner, shape in zip(runners, crew.shapes, strict=True):
        with runner.current():
            for slot, width in enumerate(shape):
                runner.bench.pack.load(slot, states[width])
            renew(runner.bench)
            _draw(runner.bench)
    return runners


@torch.no_grad()
def _draw(bench: PackBench) -> None:
    """Every slot looks at examples of its own; their augmentation is the same, which costs the same.

    The learning rate stays zero, so nothing that is timed changes the networks.
    """
    generator = rng(0, "augmentation", 0)
    shape, count = tuple(bench.order.shape), bench.order.shape[1]
    bench.order.copy_(torch.from_numpy(generator.integers(0, len(bench.source), shape)))
    drawn = draw(bench.recipe.augmentation, count, bench.source.image_shape, generator)
    if bench.draws is not None and drawn is not None:
        for target, values in zip(bench.draws.tensors(), drawn.tensors(), strict=True):
            target.copy_(values)


def _advance(runners: list[Runner], steps: int) -> None:
    """Let all packs do some steps at the same time, and wait for all of them."""
    for runner in runners:
        with runner.current():
            runner.bench.cursor.zero_()
            runner.advance(steps)
    for runner in runners:
        runner.rest()


def _look(runner: Runner) -> float:
    """Seconds in which a pack looks at one image with each of its networks."""
    bench = runner.bench
    count = max(100, min(1000, IMAGES_AT_ONCE // bench.pack.slots))
    indices = rng(0, "subsample").integers(0, len(bench.source), (bench.pack.slots, count))
    with runner.current():
        return seconds_of(partial(evaluate_pack, runner, bench.source, indices.astype(np.int64))) / count

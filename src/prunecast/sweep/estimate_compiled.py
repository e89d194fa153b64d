"""What compiling gains: of each family one crew is timed compiled, too, and tells for the others.

Compiling takes about a second a layer, so all crews would take many minutes. How much it gains depends on widths
more than on depth, and wide packs gain less than narrow ones; so the crew with the most work, which is mostly the
widest, is the one to know, and others that the fleet compiles are rather overstated.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from prunecast.fleet.build import Builder
from prunecast.sweep.estimate_loads import Load, Relatives, relatives, work_of
from prunecast.sweep.estimate_packs import Crew, PackTiming, time_compiled

SECONDS_A_LAYER = 1.0
"""What compiling a shape may take for a unit of depth: that of a ResNet-20 took some 20 s on an H200."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """What compiling changes in a family."""

    step: float = 1.0
    """Seconds of a compiled step over those of the same step as it is written."""
    compiling: float = 0.0
    """Seconds of compiling one shape, for a unit of depth."""


AS_WRITTEN = Gain()


def compile_some(
    loads: Sequence[Load], timings: Mapping[Crew, PackTiming], builder: Builder, patience: float
) -> dict[Crew, PackTiming]:
    """Time one crew of each family compiled, if the fleet compiles it: families with the most work first.

    It is the crew with the most work of those that were timed as they are written and take no more seconds to compile
    than are left.
    """
    began, found = time.perf_counter(), dict[Crew, PackTiming]()
    for crews in _by_family(work_of(load for load in loads if load.compiled)):
        left = patience - (time.perf_counter() - began)
        ready = [own for own in crews if own in timings and _expected(timings[own].crew) <= left]
        if ready and (one := time_compiled(timings[ready[0]].crew, builder)):
            found[ready[0]] = one
    return found


def _by_family(work: Mapping[Crew, float]) -> Iterable[list[Crew]]:
    """The crews of each family, those with the most work first."""
    families: dict[Relatives, list[Crew]] = {}
    for own in sorted(work, key=lambda own: -work[own]):
        families.setdefault(relatives(own), []).append(own)
    return sorted(families.values(), key=lambda crews: -sum(work[own] for own in crews))


def _expected(crew: Crew) -> float:
    """Seconds of compiling a crew, before anything is known: every shape once."""
    return SECONDS_A_LAYER * crew.kind.depth * len(set(crew.shapes))


def gains_of(
    timings: Mapping[Crew, PackTiming], compiled: Mapping[Crew, PackTiming]
) -> dict[Relatives, Gain]:
    """What compiling changed in the crew of each family that was timed both ways.

    Not more than the seconds in which it was built compiled, beyond those of building it otherwise, are compiling.
    """
    return {
        relatives(own): Gain(
            step=one.step / timings[own].step,
            compiling=max(0.0, one.start - timings[own].start) / (own.kind.depth * len(set(one.crew.shapes))),
        )
        for own, one in compiled.items()
    }


def gain_of(load: Load, gains: Mapping[Relatives, Gain]) -> Gain:
    """What compiling changes in a load: nothing where the fleet does not compile or nothing is known."""
    return gains.get(relatives(load.crew), AS_WRITTEN) if load.compiled else AS_WRITTEN


def seconds_compiling(loads: Iterable[Load], gains: Mapping[Relatives, Gain]) -> float:
    """Seconds of compiling every shape once, one after the other, as if nothing were trained meanwhile."""
    shapes = {
        (load.crew.kind, shape): load.crew.kind.depth * gain_of(load, gains).compiling
        for load in loads
        for shape in load.shapes
    }
    return sum(shapes.values())

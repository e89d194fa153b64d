"""How long a fleet takes: its packs are formed as it forms them, real ones are timed, and all steps are added up.

The packs that train at the same time, a crew, are timed together. Their time is shared by width, so

    seconds = Σ over packs and levels of width · (steps · gain · step + images · look) / width of the crew

with the seconds `step` and `look` in which the whole crew does one step as it is written, or looks at one image, and
what compiling gains, where the fleet compiles; and the seconds of building the packs and of compiling. Crews for
which there is no patience lie between those timed, by depth and width.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

import torch

from prunecast.fleet import Options
from prunecast.fleet.build import Builder
from prunecast.fleet.options import BUDGET, ON_CPU
from prunecast.fleet.remaining import Remaining
from prunecast.fleet.yard import Yard
from prunecast.sweep.estimate_compiled import (
    AS_WRITTEN,
    Gain,
    compile_some,
    gain_of,
    gains_of,
    seconds_compiling,
)
from prunecast.sweep.estimate_loads import Load, Relatives, loads_of, relatives, size, work_of
from prunecast.sweep.estimate_members import Opener, teams
from prunecast.sweep.estimate_packs import Crew, PackTiming, time_crew
from prunecast.sweep.estimate_timing import between
from prunecast.sweep.grid import PlannedChain

PATIENCE = 30.0
"""Seconds after which no further packs are built and timed, once the smallest and largest of a family were.

As many again are for compiling.
"""


@dataclass(frozen=True, kw_only=True)
class Reckoned:
    """How long a fleet takes."""

    packs: tuple[PackTiming, ...] = ()
    """As they are written, then compiled."""
    seconds: float = 0.0
    overstated: bool = False
    """Whether the fleet compiles packs of which none was timed compiled."""
    rest: Sequence[PlannedChain] = ()
    """Chains that no fleet can pack."""


def as_a_fleet(
    chains: Sequence[PlannedChain],
    device: torch.device,
    *,
    patience: float = PATIENCE,
    compiled: bool | None = None,
) -> Reckoned:
    """Time packs of the chains and add up all levels.

    Where a fleet compiles by itself, that is on a GPU, so does this; `compiled` asks for it, or against it, anywhere.
    """
    budget = BUDGET if device.type == "cuda" else ON_CPU
    options, specs = Options(budget=budget, compile=compiled), [chain.spec for chain in chains]
    packs = Remaining(enumerate(chains)).packs_at_once(budget, options.workers)
    yard, builder = Yard(specs, options), Builder(specs, options, packs)
    opener = Opener(yard, device)
    opened = [(chain, opener.open(chain)) for chain in chains]
    packable = [(planned, chain) for planned, chain in opened if chain is not None]
    loads = loads_of(teams(packable), yard, options)
    timings = _timings(loads, builder, patience)
    faster = compile_some(loads, timings, builder, patience)
    gains = gains_of(timings, faster)
    return Reckoned(
        packs=(*timings.values(), *faster.values()),
        seconds=added_up(loads, timings, gains),
        overstated=any(load.compiled and gain_of(load, gains) is AS_WRITTEN for load in loads),
        rest=[planned for planned, chain in opened if chain is None],
    )


def _timings(loads: Sequence[Load], builder: Builder, patience: float) -> dict[Crew, PackTiming]:
    """Time the largest and the smallest crew of a family, then those with the most work while there is patience."""
    work = work_of(loads)
    by_size = sorted(work, key=size)
    ends = {relatives(own): own for own in reversed(by_size)}, {relatives(own): own for own in by_size}
    first = dict.fromkeys(own for end in reversed(ends) for own in end.values())
    began, timings = time.perf_counter(), dict[Crew, PackTiming]()
    for own in [*first, *sorted(work.keys() - first.keys(), key=lambda own: -work[own])]:
        if own in first or time.perf_counter() - began < patience:
            timings[own] = time_crew(own, builder)
    return timings


def added_up(
    loads: Sequence[Load], timings: Mapping[Crew, PackTiming], gains: Mapping[Relatives, Gain]
) -> float:
    """Seconds of all loads, of building their packs, and of compiling."""
    paces = {load.crew: pace_of(load.crew, timings) for load in loads}
    trained = fsum(spent(load, paces[load.crew], gain_of(load, gains)) for load in loads)
    return trained + fsum(pace.start for pace in paces.values()) + seconds_compiling(loads, gains)


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The seconds that packs take, as they are written."""

    step: float
    """A step, for a unit of width."""
    look: float
    """An image, likewise."""
    start: float
    """Building all packs of the crew."""


def pace_of(crew: Crew, timings: Mapping[Crew, PackTiming]) -> Pace:
    """A crew's measured pace; if it was not timed, one between those of its relatives, by size.

    A part of a crew that was timed because the memory holds no more tells for the whole by width.
    """
    known = [(own, one) for own, one in timings.items() if relatives(own) == relatives(crew)]
    chosen = [(crew, timings[crew])] if crew in timings else known
    parts = [(size(own), own.width / one.crew.width, one) for own, one in chosen]
    return Pace(
        step=between(size(crew), [(place, part * one.step) for place, part, one in parts]) / crew.width,
        look=between(size(crew), [(place, part * one.look) for place, part, one in parts]) / crew.width,
        start=between(size(crew), [(place, part * one.start) for place, part, one in parts]),
    )


def spent(load: Load, pace: Pace, gain: Gain) -> float:
    """Seconds of a load; evaluation is never compiled."""
    return load.width * (load.steps * gain.step * pace.step + load.images * pace.look)

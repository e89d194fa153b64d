"""How long a fleet takes: its packs are formed as it forms them, real ones are timed, and all steps are added up.

A sweep keeps its device full of packs, each at its own pace. What is timed is therefore a crew: the packs of one
group of chains, again and again until the device counts as full. Its time is shared by width, so

    seconds = Σ over packs and levels of width · (steps · step + images · look) / width of the crew

with the seconds `step` and `look` in which the whole crew does one step, or looks at one image, and the seconds of
building the packs. Crews for which there is no patience lie between those timed, by depth and width.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import fsum

import torch

from prunecast.fleet import Options
from prunecast.fleet.build import Builder
from prunecast.fleet.options import BUDGET, FULL_PACKS, ON_CPU
from prunecast.fleet.shapes import Shape, deal
from prunecast.fleet.yard import Yard
from prunecast.sweep.cost import evaluated, multiply_adds
from prunecast.sweep.estimate_members import Crowd, Opener, teams
from prunecast.sweep.estimate_packs import Crew, PackTiming, time_crew
from prunecast.sweep.estimate_timing import between
from prunecast.sweep.grid import PlannedChain

PATIENCE = 30.0
"""Seconds after which no further packs are built and timed, once the smallest and largest of a family were."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the packs of one crowd have to do."""

    shapes: tuple[Shape, ...]
    steps: int
    """Of every pack, at all levels of the crowd together."""
    images: int
    """That every network is evaluated on, likewise."""
    crew: Crew

    @property
    def width(self) -> float:
        """The widths of all packs."""
        return sum(map(sum, self.shapes))


def as_a_fleet(
    chains: Sequence[PlannedChain], device: torch.device, *, patience: float = PATIENCE
) -> tuple[list[PackTiming], float, list[PlannedChain]]:
    """Time packs of the chains, add up all levels in seconds, and return the chains that no fleet can pack."""
    options = Options(budget=BUDGET if device.type == "cuda" else ON_CPU)
    specs = [chain.spec for chain in chains]
    yard, builder = Yard(specs, options), Builder(specs, options)
    opener = Opener(yard, device)
    opened = [(chain, opener.open(chain)) for chain in chains]
    packable = [(planned, chain) for planned, chain in opened if chain is not None]
    loads = loads_of(teams(packable), yard, options)
    timings = _timings(loads, builder, patience)
    crews = {load.crew for load in loads}
    seconds = fsum(spent(load, pace_of(load.crew, timings)) for load in loads)
    seconds += fsum(pace_of(crew, timings).start for crew in crews)
    return list(timings.values()), seconds, [planned for planned, chain in opened if chain is None]


def loads_of(crowds: Sequence[Sequence[Crowd]], yard: Yard, options: Options) -> list[Load]:
    """Deal every crowd into packs, in the shapes and as many side by side as the fleet would choose."""
    dealt = [[(crowd, _shapes(crowd, yard)) for crowd in team] for team in crowds]
    beside = min(options.workers, _at_once(dealt))
    return [
        Load(
            shapes=shapes,
            steps=crowd.levels * crowd.members[0].level.last,
            images=crowd.levels * evaluated(crowd.members[0].chain.spec),
            crew=Crew(kind=crowd.kind, shapes=crew(shapes, yard.budget(crowd.kind, crowd.members), beside)),
        )
        for team in dealt
        for crowd, shapes in team
    ]


def _shapes(crowd: Crowd, yard: Yard) -> tuple[Shape, ...]:
    packs = deal(crowd.members, yard.budget(crowd.kind, crowd.members))
    return tuple(yard.shape(crowd.kind, members) for members in packs)


def _at_once(dealt: Iterable[Sequence[tuple[Crowd, tuple[Shape, ...]]]]) -> int:
    """Packs that are ready at the same time on average: all steps over those of the longest chain.

    A team's levels come one after the other, so a plan of one small team never has more than its own packs.
    """
    total, longest = 0, 1
    for team in dealt:
        steps = [(crowd.levels * crowd.members[0].level.last, len(shapes)) for crowd, shapes in team]
        total += sum(own * packs for own, packs in steps)
        longest = max(longest, sum(own for own, _ in steps))
    return max(1, round(total / longest))


def crew(shapes: Sequence[Shape], budget: float, most: int) -> tuple[Shape, ...]:
    """The packs that train at the same time: until the device is full, as the scheduler has it, or `most`."""
    chosen: list[Shape] = []
    for shape in cycle(shapes):
        if len(chosen) == most or sum(map(sum, chosen)) >= FULL_PACKS * budget:
            break
        chosen.append(shape)
    return tuple(sorted(chosen, key=sum, reverse=True))


def _timings(loads: Sequence[Load], builder: Builder, patience: float) -> dict[Crew, PackTiming]:
    """Time the largest and the smallest crew of a family, then those with the most work while there is patience."""
    work: dict[Crew, float] = {}
    for load in loads:
        work[load.crew] = work.get(load.crew, 0.0) + load.steps * load.width * layers(load.crew)
    by_size = sorted(work, key=size)
    ends = {relatives(own): own for own in reversed(by_size)}, {relatives(own): own for own in by_size}
    first = dict.fromkeys(own for end in reversed(ends) for own in end.values())
    began, timings = time.perf_counter(), dict[Crew, PackTiming]()
    for own in [*first, *sorted(work.keys() - first.keys(), key=lambda own: -work[own])]:
        if own in first or time.perf_counter() - began < patience:
            timings[own] = time_crew(own, builder)
    return timings


def relatives(crew: Crew) -> tuple[object, ...]:
    """What crews share whose times are compared."""
    return crew.kind.family, crew.kind.dataset, crew.kind.recipe, crew.kind.batch


def layers(crew: Crew) -> float:
    """How deep the networks are, by the multiply-adds of width 1."""
    return multiply_adds(crew.kind.family, crew.kind.depth, 1.0)


def size(crew: Crew) -> float:
    """How large a crew is: layers times widths, to which the memory that a step reads and writes is proportional."""
    return layers(crew) * crew.width


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The seconds that packs take."""

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


def spent(load: Load, pace: Pace) -> float:
    """Seconds of a load."""
    return load.width * (load.steps * pace.step + load.images * pace.look)

"""What the packs of a fleet have to do, and which of them train at the same time.

A sweep keeps its device full of packs, each at its own pace. What is timed is therefore a crew: the packs of one
group of chains, again and again until the device counts as full.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import cycle

from prunecast.fleet import Options
from prunecast.fleet.options import FULL_PACKS
from prunecast.fleet.ranks import work
from prunecast.fleet.shapes import Shape, deal
from prunecast.fleet.yard import Yard
from prunecast.sweep.cost import evaluated_images, multiply_adds
from prunecast.sweep.estimate_members import Crowd
from prunecast.sweep.estimate_packs import Crew

Relatives = tuple[object, ...]
"""What crews share whose times are compared."""


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the packs of one crowd have to do."""

    shapes: tuple[Shape, ...]
    steps: int
    """Of every pack, at all levels of the crowd together."""
    images: int
    """That every network is evaluated on, likewise."""
    crew: Crew
    compiled: bool
    """Whether the fleet compiles the steps."""

    @property
    def width(self) -> float:
        """The widths of all packs."""
        return sum(map(sum, self.shapes))


def loads_of(crowds: Sequence[Sequence[Crowd]], yard: Yard, options: Options) -> list[Load]:
    """Deal every crowd into packs, in the shapes and as many side by side as the fleet would choose."""
    dealt = [[(crowd, _shapes(crowd, yard)) for crowd in team] for team in crowds]
    beside = min(options.workers, _at_once(dealt))
    return [
        Load(
            shapes=shapes,
            steps=crowd.levels * crowd.members[0].level.last,
            images=crowd.levels * evaluated_images(crowd.members[0].chain.spec),
            crew=Crew(kind=crowd.kind, shapes=crew(shapes, yard.budget(crowd.kind, crowd.members), beside)),
            compiled=any(yard.compiles(crowd.kind, shape) for shape in shapes),
        )
        for team in dealt
        for crowd, shapes in team
    ]


def _shapes(crowd: Crowd, yard: Yard) -> tuple[Shape, ...]:
    packs = deal(crowd.members, yard.budget(crowd.kind, crowd.members))
    return tuple(yard.shape(crowd.kind, members) for members in packs)


def _at_once(dealt: Iterable[Sequence[tuple[Crowd, tuple[Shape, ...]]]]) -> int:
    """Packs that train at the same time: all work over that of the longest chain.

    A team's levels come one after the other, so a plan of one small team never has more than its own packs. Steps of
    deeper networks count for more, as they do for the fleet.
    """
    total, longest = 0, 1
    for team in dealt:
        levels = [
            (work(crowd.levels * crowd.members[0].level.last, crowd.kind.depth), len(shapes))
            for crowd, shapes in team
        ]
        total += sum(own * packs for own, packs in levels)
        longest = max(longest, sum(own for own, _ in levels))
    return max(1, math.ceil(total / longest))


def crew(shapes: Sequence[Shape], budget: float, most: int) -> tuple[Shape, ...]:
    """The packs that train at the same time: until the device is full, as the scheduler has it, or `most`."""
    chosen: list[Shape] = []
    for shape in cycle(shapes):
        if len(chosen) == most or sum(map(sum, chosen)) >= FULL_PACKS * budget:
            break
        chosen.append(shape)
    return tuple(sorted(chosen, key=sum, reverse=True))


def relatives(crew: Crew) -> Relatives:
    """The crews of one family, on the same data and with the same steps, at any depth and width."""
    return crew.kind.family, crew.kind.dataset, crew.kind.recipe, crew.kind.batch


def layers(crew: Crew) -> float:
    """How deep the networks are, by the multiply-adds of width 1."""
    return multiply_adds(crew.kind.family, crew.kind.depth, 1.0)


def size(crew: Crew) -> float:
    """How large a crew is: layers times widths, to which the memory that a step reads and writes is proportional."""
    return layers(crew) * crew.width


def work_of(loads: Iterable[Load]) -> dict[Crew, float]:
    """What each crew stands for: steps times images, widths and layers, over all its loads."""
    work: dict[Crew, float] = {}
    for load in loads:
        own = load.steps * load.crew.kind.batch * load.width * layers(load.crew)
        work[load.crew] = work.get(load.crew, 0.0) + own
    return work

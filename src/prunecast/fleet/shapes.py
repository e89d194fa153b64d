"""Which networks go into one pack, and in how few different shapes of packs."""

from collections import Counter
from collections.abc import Sequence
from math import ceil

from prunecast.fleet.members import Member

Shape = tuple[float, ...]
"""The widths of a pack's slots, widest first, so that equal groups of channels fit the members."""


def deal(members: Sequence[Member], budget: float) -> list[list[Member]]:
    """Members in as few packs as the budget of widths allows, all alike, the first with the most of each width.

    What every pack holds is part of what the first holds, so one shape serves them all.
    """
    by_width = Counter(member.width for member in members)
    packs = ceil(sum(width * count for width, count in by_width.items()) / budget)
    dealt: list[list[Member]] = [[] for _ in range(min(packs, max(by_width.values(), default=1)) or 1)]
    for width in sorted(by_width, reverse=True):
        alike = [member for member in members if member.width == width]
        for place, member in enumerate(alike):
            dealt[place % len(dealt)].append(member)
    return [pack for pack in dealt if pack]


def shape_of(members: Sequence[Member]) -> Shape:
    """The shape that just holds these members."""
    return tuple(sorted((member.width for member in members), reverse=True))


def fitting(known: Sequence[Shape], members: Sequence[Member], widest: float) -> Shape | None:
    """The narrowest known shape with a slot for everybody, if it is not wider than `widest`."""
    wanted = Counter(member.width for member in members)
    good = [shape for shape in known if not wanted - Counter(shape) and sum(shape) <= widest]
    return min(good, key=sum, default=None)


def places(shape: Shape, members: Sequence[Member]) -> list[int]:
    """A slot of its own width for every member."""
    free = {width: [slot for slot, own in enumerate(shape) if own == width] for width in set(shape)}
    return [free[member.width].pop(0) for member in members]


def split(members: list[Member], suspects: Sequence[int]) -> list[list[Member]]:
    """The first to show numbers that are not finite, and the rest; halves if all showed them at once."""
    if len(suspects) == len(members):
        return halves(members)
    return [
        [member for place, member in enumerate(members) if (place in suspects) == suspected]
        for suspected in (True, False)
    ]


def halves(members: list[Member]) -> list[list[Member]]:
    """Two packs in place of one."""
    middle = len(members) // 2
    return [members[:middle], members[middle:]]

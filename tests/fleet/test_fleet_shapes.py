"""Members are dealt into few packs that one shape serves."""

import math
from collections import Counter
from dataclasses import dataclass

import pytest

from prunecast.fleet.shapes import deal, fitting, places, shape_of


@dataclass(frozen=True)
class Sized:
    width: float


@pytest.mark.parametrize(
    ("widths", "budget", "packs"),
    [
        ([1.0] * 16, 4.0, 4),
        ([1.0] * 10, 4.0, 3),
        ([2.0**-k for k in range(5) for _ in range(2)], 4.0, 1),
        ([0.0625] * 100, 4.0, 2),
        ([4.0, 0.5], 1.0, 1),
    ],
)
def test_the_first_pack_has_room_for_every_other(widths, budget, packs):
    members = [Sized(width) for width in widths]
    dealt = deal(members, budget)
    assert len(dealt) == packs
    assert Counter(member.width for pack in dealt for member in pack) == Counter(widths)
    shape = shape_of(dealt[0])
    for pack in dealt:
        assert fitting([shape], pack, math.inf) == shape
        slots = places(shape, pack)
        assert len(set(slots)) == len(pack)
        assert [shape[slot] for slot in slots] == [member.width for member in pack]


def test_a_shape_that_is_far_too_wide_is_not_used():
    wide, near = (1.0, 0.5, 0.25), (0.5, 0.25)
    assert fitting([wide, near], [Sized(0.25)], 3.0) == near
    assert fitting([wide], [Sized(0.25)], 3.0) is None
    assert fitting([wide], [Sized(0.25), Sized(0.25)], math.inf) is None

"""The number of packs at once is such that all end together with the longest chain."""

import pytest
from fleet_digits import chain, jobs_of

from prunecast.fleet.queue import RemainingWork, chain_group


def remaining(sizes, *, width=1.0):
    specs = [chain(num_examples=size, width=width, replicate=k) for k, size in enumerate(sizes)]
    return RemainingWork(enumerate(jobs_of(specs)))


@pytest.mark.parametrize(
    ("sizes", "budget", "packs"),
    [
        ([1024], 4.0, 2),
        ([1024, 512, 256, 128], 4.0, 2),
        ([1024, 1000, 960, 900], 4.0, 4),
        ([1024] * 12, 4.0, 3),
        ([1024] * 100, 4.0, 6),
    ],
    ids=["one", "halves", "alike", "three full packs", "no more than streams"],
)
def test_packs_beside_the_longest_chain(sizes, budget, packs):
    assert remaining(sizes).packs_at_once(budget, 6) == packs


def test_what_is_done_does_not_count():
    own = remaining([1024, 512, 500, 490])
    assert own.packs_at_once(4.0, 6) == 3
    for _ in range(2):
        own.finish(0)
    assert own.packs_at_once(4.0, 6) == 4
    own.end(0)
    assert own.packs_at_once(4.0, 6) == 3
    for number in (1, 2, 3):
        own.end(number)
    assert own.packs_at_once(4.0, 6) == 2


@pytest.mark.parametrize(("apart", "packs"), [(False, 2), (True, 3)], ids=["one pack", "a pack per width"])
def test_widths_that_cannot_share_a_pack(apart, packs):
    specs = [chain(num_examples=1024, width=width) for width in (1.0, 0.5, 0.25)]
    own = RemainingWork(enumerate(jobs_of(specs)))
    if apart:
        own.keep_widths_apart(chain_group(specs[0]))
    assert own.packs_at_once(4.0, 6) == packs

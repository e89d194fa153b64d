"""Levels wait for others to be packed with, as long as these are about to come."""

from concurrent.futures import Future

import pytest
from fleet_digits import chain, jobs_of

from prunecast import data
from prunecast.fleet import Options
from prunecast.fleet.members import kind_of
from prunecast.fleet.open_close import open_member
from prunecast.fleet.ranks import rank_of
from prunecast.fleet.under_way import Training, UnderWay
from prunecast.fleet.waiting import Waiting
from prunecast.fleet.yard import Yard
from prunecast.pruning import open_chain

BUDGET = 2.0
LONGER, SHORTER = 600, 300
"""Examples, and so steps."""


@pytest.fixture(scope="module")
def dataset():
    return data.load("digits")


@pytest.fixture
def members(tmp_path, dataset):
    """Four long levels of width 1/2 and a short one of width 2."""
    sizes = [(LONGER, 0.5, replicate) for replicate in range(4)] + [(SHORTER, 2.0, 0)]
    specs = [chain(num_examples=size, width=width, replicate=number) for size, width, number in sizes]
    jobs = jobs_of(specs, dataset=dataset)
    chains = [open_chain(spec, tmp_path, dataset) for spec in specs]
    return [open_member(number, jobs[number], own, []) for number, own in enumerate(chains)]


@pytest.fixture
def under_way():
    return UnderWay()


@pytest.fixture
def waiting(members, under_way):
    yard = Yard([member.chain.spec for member in members], Options(budget=BUDGET))
    yard.check(kind_of(members[0].chain), members[0].chain)
    return Waiting(yard, under_way)


def numbers(members):
    return None if members is None else [member.number for member in members]


def test_the_most_work_goes_first_and_a_group_is_dealt_into_packs(waiting, members):
    for member in (members[4], *members[:4], *members[:2]):
        waiting.put(member)
    assert numbers(waiting.next_pack(2, [])) == [0, 2, 0]
    assert numbers(waiting.next_pack(2, [])) == [1, 3, 1]
    assert numbers(waiting.next_pack(2, [])) == [4]
    assert waiting.next_pack(2, []) is None


def test_a_group_waits_for_chains_of_its_team_that_are_being_opened(waiting, members):
    for member in members:
        waiting.put(member)
    coming = [rank_of(members[:1]).team]
    assert numbers(waiting.next_pack(2, coming)) == [4]
    assert waiting.next_pack(2, coming) is None
    assert numbers(waiting.next_pack(2, [])) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("doing", "ready", "starts"),
    [
        ("closing", 4, True),
        ("closing", 3, False),
        ("training", 2, True),
        ("training", 1, False),
        (None, 1, True),
    ],
)
def test_a_part_of_a_pack_waits_for_the_rest_of_its_team(waiting, under_way, members, doing, ready, starts):
    rank = rank_of(members[:1])
    if doing == "closing":
        under_way.closing[Future()] = rank
    if doing == "training":
        under_way.training[Future()] = Training(rank=rank, share=0.1)
    for member in members[:ready]:
        waiting.put(member)
    assert (waiting.next_pack(6, []) is not None) is starts


def test_packs_that_are_trained_again_go_before_what_is_not_yet_formed(waiting, members):
    waiting.put(members[0])
    waiting.put_packs([[members[4]]])
    assert numbers(waiting.next_pack(2, [])) == [4]
    assert numbers(waiting.next_pack(2, [])) == [0]


def test_who_trains_alone_and_has_begun_goes_on_first(waiting, members):
    waiting.put_alone(members[0], first=False)
    waiting.put_alone(members[1], first=False)
    waiting.put_alone(members[2], first=True)
    assert [waiting.next_alone().number for _ in range(3)] == [2, 0, 1]
    assert waiting.next_alone() is None

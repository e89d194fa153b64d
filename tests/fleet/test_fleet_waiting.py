"""Levels wait for others to share a pack with, as long as these will come soon."""

import dataclasses

import pytest
from fleet_digits import chain, jobs_of

from prunecast import data
from prunecast.fleet import FleetOptions
from prunecast.fleet.chains import open_member
from prunecast.fleet.members import kind_of
from prunecast.fleet.queue import InProgress, PackQueue, Training, rank_of
from prunecast.fleet.runner_pool import RunnerPool
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
def in_progress():
    return InProgress()


@pytest.fixture
def waiting(members, in_progress):
    pool = RunnerPool([member.chain.spec for member in members], FleetOptions(budget=BUDGET))
    assert pool.add(kind_of(members[0].chain), members[0].chain)
    return PackQueue(pool.budget, in_progress)


def numbers(members):
    return None if members is None else [member.number for member in members]


def test_packs_of_a_shape_serve_networks_whatever_their_initial_weights(members):
    spec = dataclasses.replace(members[0].chain.spec, family="networks:mine")
    own = dataclasses.replace(spec, recipe=spec.recipe.changed({"initial_weights": "own"}))
    kinds = {kind_of(dataclasses.replace(members[0].chain, spec=given)) for given in (spec, own)}
    assert len(kinds) == 1


def test_the_most_work_goes_first_and_a_group_is_dealt_into_packs(waiting, members):
    for member in (members[4], *members[:4], *members[:2]):
        waiting.put(member)
    assert numbers(waiting.next_pack(2, [])) == [0, 2, 0]
    assert numbers(waiting.next_pack(2, [])) == [1, 3, 1]
    assert numbers(waiting.next_pack(2, [])) == [4]
    assert waiting.next_pack(2, []) is None


def test_a_group_waits_for_chains_of_its_group_that_are_being_opened(waiting, members):
    for member in members:
        waiting.put(member)
    coming = [rank_of(members[:1]).group]
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
def test_a_part_of_a_pack_waits_for_the_rest_of_its_group(
    waiting, in_progress, members, doing, ready, starts
):
    rank = rank_of(members[:1])
    if doing == "closing":
        in_progress.closing.append(rank)
    if doing == "training":
        in_progress.training.append(Training(rank=rank, share=0.1))
    for member in members[:ready]:
        waiting.put(member)
    assert (waiting.next_pack(6, []) is not None) is starts


def test_packs_that_are_trained_again_go_before_what_is_not_yet_formed(waiting, members):
    waiting.put(members[0])
    waiting.put_packs([[members[4]]])
    assert numbers(waiting.next_pack(2, [])) == [4]
    assert numbers(waiting.next_pack(2, [])) == [0]


def test_a_pack_that_could_not_start_is_the_next(waiting, members):
    waiting.put_packs([[members[4]], [members[0]]])
    waiting.put_back(waiting.next_pack(2, []))
    assert numbers(waiting.next_pack(2, [])) == [4]


def test_networks_that_cannot_be_packed_train_alone_without_waiting(members, in_progress):
    waiting = PackQueue(lambda *_: None, in_progress)
    for member in members[:2]:
        waiting.put(member)
    coming = [rank_of(members[:1]).group]
    assert [numbers(waiting.next_pack(2, coming)) for _ in range(3)] == [[0], [1], None]


def test_networks_wait_only_for_networks_that_they_can_share_a_pack_with(members, in_progress):
    """Stacks hold one width, so a level of another width neither fills nor keeps waiting a part of a pack."""
    waiting = PackQueue(lambda *_: BUDGET, in_progress, mixes=lambda kind: False)
    waiting.put(members[0])
    in_progress.closing.append(rank_of([members[1]]))
    assert waiting.next_pack(6, []) is None
    in_progress.closing[:] = [dataclasses.replace(rank_of([members[1]]), widths=frozenset({0.25}))]
    assert numbers(waiting.next_pack(6, [])) == [0]

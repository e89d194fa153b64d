"""A plan's time is that of the packs a fleet would form, where it can, and of chains one after the other elsewhere."""

import dataclasses

import pytest
import torch
from small import BRIEF, parsed

from prunecast.cli.show import plan as show_plan
from prunecast.fleet.build import Builder
from prunecast.fleet.options import Options
from prunecast.fleet.yard import Yard
from prunecast.sweep import estimate_fleet, read_plan
from prunecast.sweep.cost import overview, training_steps
from prunecast.sweep.estimate import Estimate, Share, estimate
from prunecast.sweep.estimate_fleet import as_a_fleet, pace_of
from prunecast.sweep.estimate_loads import crew, loads_of, size
from prunecast.sweep.estimate_members import Opener, fits, teams
from prunecast.sweep.estimate_packs import Crew, PackTiming

CPU = torch.device("cpu")
MIXED = """
import torch.nn as nn

def normalised_by_groups(depth, width, num_classes):
    body = [nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(256, num_classes))
"""


def opened(plan, budget):
    """The packs of a plan, as a fleet with this budget of widths forms them."""
    options = Options(budget=budget)
    yard = Yard([chain.spec for chain in plan.chains], options)
    opener = Opener(yard, CPU)
    crowds = teams([(chain, opener.open(chain)) for chain in plan.chains])
    return crowds, loads_of(crowds, yard, options)


def test_a_fleet_is_reckoned_by_its_packs_steps_and_images():
    text = BRIEF.replace("[100, 200]", "[64, 128]").replace("width = 0.5", "width = [0.5, 1]")
    found = estimate(parsed(text.replace("epochs = 2", "epochs = 4\nrewind = 1")), fleet=True)
    assert (found.fleet.chains, found.fleet.training_runs, found.alone.chains) == (8, 24, 0)
    (one,) = found.packs
    assert one.crew.shapes == ((1, 1, 0.5, 0.5),) * 2  # two teams; the shorter one lasts half as long
    steps_and_images = {64: (8 + 2 * 6, 3 * (64 + 1197)), 128: (16 + 2 * 12, 3 * (128 + 1197))}
    expected = sum(count * one.step + images * one.look for count, images in steps_and_images.values())
    assert found.fleet.seconds == pytest.approx(one.start + expected / 2, rel=1e-9)


@pytest.mark.parametrize(("sizes", "packs"), [("64", 2), ("[64, 65, 66, 67]", 4)])
def test_packs_are_built_for_as_many_as_the_fleet_begins_with(monkeypatch, sizes, packs):
    told = []

    class Noting(Builder):
        def __init__(self, specs, options, packs=None):
            told.append(packs)
            super().__init__(specs, options, packs)

    monkeypatch.setattr(estimate_fleet, "Builder", Noting)
    as_a_fleet(parsed(BRIEF.replace("[100, 200]", sizes)).chains, CPU, patience=0)
    assert told == [packs]


def test_what_no_fleet_can_pack_is_reckoned_one_after_the_other(tmp_path, monkeypatch):
    (tmp_path / "mixing_channels.py").write_text(MIXED)
    monkeypatch.syspath_prepend(tmp_path)
    text = BRIEF.replace("[100, 200]", "64").replace('"digits_cnn"', '["digits_cnn", "mixing_channels:OWN"]')
    plan = parsed(text.replace("OWN", "normalised_by_groups"))
    several = dataclasses.replace(plan.chains[0], devices=2)
    plan = dataclasses.replace(plan, chains=(several, *plan.chains[1:]))
    found = estimate(plan, fleet=True)
    assert (found.fleet.chains, found.alone.chains) == (1, 3)
    assert {one.spec.family for one in found.timings} == {spec.family for spec in specs(plan)}
    told = words(found, plan)
    assert " 1 chain, at most 3 training runs, as a fleet of packs (" in told
    assert "); 3 chains, at most 9 training runs, one after the other (" in told


def specs(plan):
    return [chain.spec for chain in plan.chains]


def words(found, plan, jobs=1):
    return " ".join(show_plan(overview(plan), found, jobs).split())


def test_data_that_is_read_while_training_is_not_packed():
    assert not any(fits(spec, CPU) for spec in specs(read_plan("imagenet-resnet50", scale="smoke")))
    assert all(fits(spec, CPU) for spec in specs(read_plan("cifar10-resnet")))


@pytest.mark.parametrize(
    ("name", "scale", "budget"),
    [
        ("cifar10-resnet", "full", 16),
        ("cifar10-resnet", "small", 16),
        ("svhn-vgg", "full", 2),
        ("digits", "full", 4),
    ],
)
def test_every_level_of_every_chain_has_a_place_in_a_pack(name, scale, budget):
    plan = read_plan(name, scale=scale)
    caps = [chain.rules.level_cap - number % 3 for number, chain in enumerate(plan.chains)]
    plan = dataclasses.replace(
        plan,
        chains=tuple(
            dataclasses.replace(chain, rules=dataclasses.replace(chain.rules, level_cap=cap))
            for chain, cap in zip(plan.chains, caps, strict=True)
        ),
    )
    crowds, loads = opened(plan, budget)
    flat = [crowd for team in crowds for crowd in team]
    assert sum(crowd.levels * len(crowd.members) for crowd in flat) == sum(caps) + len(caps)
    trained = sum(crowd.levels * sum(own.level.last for own in crowd.members) for crowd in flat)
    assert trained == sum(
        training_steps(chain.spec, 0) + chain.rules.level_cap * training_steps(chain.spec, 1)
        for chain in plan.chains
    )
    for crowd, load in zip(flat, loads, strict=True):
        assert sum(map(len, load.shapes)) >= len(crowd.members)
        assert load.width >= sum(own.width for own in crowd.members)
        assert load.crew.shapes
        assert set(load.crew.shapes) <= set(load.shapes)


@pytest.mark.parametrize(
    ("shapes", "most", "chosen"),
    [
        ([(2.0,)], 1, 1),
        ([(2.0,)], 4, 4),  # half of a budget each: four are two full ones
        ([(4.0,)], 4, 2),
        ([(3.9,)], 4, 3),
        ([(4.0,), (1.0,)], 4, 3),
        ([(0.5,)], 4, 4),
    ],
)
def test_packs_train_side_by_side_until_the_device_is_full(shapes, most, chosen):
    assert len(crew(shapes, 4.0, most)) == chosen


def test_packs_that_were_not_timed_lie_above_a_fixed_time_and_one_in_proportion():
    (((crowd, *_),), _) = opened(read_plan("cifar10-resnet", scale="smoke"), 16)
    crews = [
        Crew(kind=dataclasses.replace(crowd.kind, depth=depth), shapes=((width,),) * 2)
        for depth in (8, 20, 50)
        for width in (0.5, 1.0, 4.0)
    ]
    seconds = {own: 0.01 + 1e-9 * size(own) for own in crews}
    timings = {own: PackTiming(crew=own, step=seconds[own], look=seconds[own], start=1.0) for own in crews}
    ends = {own: timings[own] for own in (crews[0], crews[-1])}
    for own in crews:
        assert pace_of(own, timings).step * own.width == pytest.approx(seconds[own], rel=1e-12)
        found = pace_of(own, ends)
        assert found.step == found.look
        assert pace_of(own, timings).step <= found.step * (1 + 1e-12)
        assert found.step * own.width <= seconds[crews[-1]] * (1 + 1e-12)


def test_part_of_a_crew_tells_for_the_whole_by_width():
    (((crowd, *_),), _) = opened(read_plan("cifar10-resnet", scale="smoke"), 16)
    whole, part = (Crew(kind=crowd.kind, shapes=((2.0, 1.0),) * packs) for packs in (3, 1))
    timings = {whole: PackTiming(crew=part, step=0.5, look=0.1, start=1.0)}
    assert pace_of(whole, timings).step * whole.width == pytest.approx(1.5, rel=1e-12)
    narrower = Crew(kind=crowd.kind, shapes=((1.0,),))
    assert pace_of(narrower, timings).step * narrower.width == pytest.approx(1.5, rel=1e-12)


def test_without_patience_the_smallest_and_the_largest_packs_tell_for_all():
    text = BRIEF.replace("depth = 3", "depth = [3, 4, 5]").replace("[100, 200]", "64")
    plan = parsed(text)
    found = as_a_fleet(plan.chains, CPU, patience=0.0)
    assert [one.crew.kind.depth for one in found.packs] == [5, 3]
    assert not found.rest
    trained, seen = (4 + 2 * 4) / 3, 3 * (64 + 1197) / 3  # three depths side by side
    each = [one.start + trained * one.step + seen * one.look for one in found.packs]
    # Each part of the third lies between those of the two; on a busy machine neither need be the slower in all parts.
    low, high = (
        end(one.start for one in found.packs)
        + trained * end(one.step for one in found.packs)
        + seen * end(one.look for one in found.packs)
        for end in (min, max)
    )
    assert sum(each) + low * (1 - 1e-9) <= found.seconds <= sum(each) + high * (1 + 1e-9)


def test_a_time_says_which_way_it_was_reckoned():
    plan = read_plan("cifar10-vgg", scale="smoke")
    share = Share(chains=2, training_runs=6, seconds=4e8)
    fleet = words(Estimate(device="NVIDIA H200", fleet=share), plan)
    assert (
        "At most 12 y 250 d on NVIDIA H200: 2 chains, at most 6 training runs, as a fleet of packs. " in fleet
    )
    alone = words(Estimate(device="NVIDIA H200", alone=share), plan)
    assert "on NVIDIA H200: 2 chains, at most 6 training runs, one after the other. " in alone
    two = words(Estimate(device="cpu", alone=share), plan, jobs=2)
    assert "At most 6 y 125 d on cpu: 2 chains, at most 6 training runs, 2 at a time. " in two

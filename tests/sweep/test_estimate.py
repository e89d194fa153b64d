"""The estimate adds up the packs that a fleet forms and the chains that it cannot pack."""

import dataclasses
from collections import Counter

import pytest
import torch
from compiled_programs import compiled
from PIL import Image
from small import BRIEF, parsed

from prunecast.cli.show import plan as show_plan
from prunecast.errors import PrunecastError
from prunecast.fleet import FleetOptions, runner_pool
from prunecast.fleet.step import EAGER
from prunecast.sweep import estimation as module
from prunecast.sweep import read_plan
from prunecast.sweep.cost import chain_steps
from prunecast.sweep.estimation import (
    Estimate,
    Share,
    TimedWork,
    TrainingSpeed,
    deal_packs,
    estimate,
    fits,
    interpolated,
    spread,
    time_works,
)
from prunecast.sweep.overview import overview

CPU = torch.device("cpu")
MIXED = """
import torch.nn as nn

class Choosy(nn.Conv2d):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)

def choosy(depth, width, num_classes):
    body = [Choosy(1, 4, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(256, num_classes))
"""


def specs(plan):
    return [chain.spec for chain in plan.chains]


def words(found, plan, jobs=1):
    return " ".join(show_plan(overview(plan), found, jobs).split())


def timing(**changes):
    usual = {"family": "vgg", "depth": 16, "widths": (1.0, 0.5), "batch": 128, "mode": "eager"}
    return TrainingSpeed(**{**usual, "step_seconds": 0.01, "image_seconds": 1e-5, **changes})


def work(size, seconds, **changes):
    """A work with a given timing."""
    made = timing(step_seconds=seconds, image_seconds=seconds / 10, build_seconds=seconds * 10)
    usual = {"comparable": (), "shape": (size,), "size": size, "steps": 100, "images": 1000}
    return TimedWork(**{**usual, "time": lambda: made, **changes})


def test_packs_count_by_their_steps_images_and_building():
    text = BRIEF.replace("[100, 200]", "[64, 128]").replace("width = 0.5", "width = [0.5, 1]")
    found = estimate(parsed(text.replace("epochs = 2", "epochs = 4\nrewind = 1")), fleet=True)
    assert (found.packed.chains, found.packed.training_runs, found.alone.chains) == (8, 24, 0)
    (one,) = found.packs
    assert one.widths == (1, 1, 0.5, 0.5)
    steps_and_images = {64: (8 + 2 * 6, 3 * (64 + 1197)), 128: (16 + 2 * 12, 3 * (128 + 1197))}
    expected = sum(
        count * one.step_seconds + images * one.image_seconds for count, images in steps_and_images.values()
    )
    assert found.packed.seconds == pytest.approx(one.build_seconds + expected, rel=1e-9)


def test_what_no_fleet_can_pack_counts_one_after_the_other(tmp_path, monkeypatch):
    (tmp_path / "of_conditions.py").write_text(MIXED)
    monkeypatch.syspath_prepend(tmp_path)
    text = BRIEF.replace("[100, 200]", "64").replace('"digits_cnn"', '["digits_cnn", "of_conditions:OWN"]')
    plan = parsed(text.replace("OWN", "choosy"))
    several = dataclasses.replace(plan.chains[0], devices=2)
    plan = dataclasses.replace(plan, chains=(several, *plan.chains[1:]))
    found = estimate(plan, fleet=True)
    assert (found.packed.chains, found.alone.chains) == (1, 3)
    assert {one.family for one in found.networks} == {spec.family for spec in specs(plan)}
    told = words(found, plan)
    assert " 1 chain, at most 3 training runs, packed as a fleet (" in told
    assert "); 3 chains, at most 9 training runs, one after the other (" in told


def test_data_that_is_read_while_training_is_not_packed():
    assert not any(fits(chain, CPU) for chain in read_plan("imagenet-resnet50", scale="smoke").chains)
    assert all(fits(chain, CPU) for chain in read_plan("cifar10-resnet").chains)


@pytest.mark.parametrize(("free", "room"), [(1_000, False), (1_000_000, True)])
def test_a_folder_with_the_name_of_an_official_dataset_counts_as_it_is_on_disk(
    tmp_path, monkeypatch, free, room
):
    """CIFAR-10 is never resized and has 50,000 images; the images of a folder are resized."""
    for place in ("train/a", "train/b", "test/a", "test/b"):
        (tmp_path / "images" / place).mkdir(parents=True)
        for number in range(4):
            Image.new("RGB", (20, 20), (number, 0, 0)).save(tmp_path / "images" / place / f"{number}.png")
    text = BRIEF.replace('dataset = "digits"', 'dataset = "cifar10"\nloader = "folder"\nimage_size = 8')
    text = f'root = "{tmp_path / "images"}"\n{text.replace("[100, 200]", "4")}'
    (chain, *_) = overview(parsed(text)).plan.chains
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
    assert fits(chain, torch.device("cuda")) == room


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
    chains = [
        dataclasses.replace(
            chain, rules=dataclasses.replace(chain.rules, level_cap=chain.rules.level_cap - number % 3)
        )
        for number, chain in enumerate(plan.chains)
    ]
    works, alone = deal_packs(chains, CPU, FleetOptions(budget=budget))
    assert alone == []
    slots = Counter()
    for one in works:
        kind, shape = one.shape
        slots[kind.depth] += one.steps * len(shape)
    needed = Counter()
    for chain in chains:
        needed[chain.spec.depth] += chain_steps(chain)
    assert all(slots[depth] >= steps for depth, steps in needed.items())
    assert max(sum(one.shape[1]) for one in works) <= max(2 * budget, max(spec.width for spec in specs(plan)))


def test_a_few_sizes_are_timed_the_largest_and_the_smallest_first():
    works = [work(size, 1.0) for size in (5, 3, 1, 9, 7, 2, 8)]
    assert [one.size for one in spread(works)] == [9, 1, 3, 7]
    assert [one.size for one in spread(works[:1])] == [5]
    assert [one.size for one in spread(works[:2])] == [5, 3]


def test_sizes_between_lie_above_a_fixed_time_and_one_in_proportion():
    measured = {size: 0.01 + 1e-3 * size for size in (1.0, 10.0, 100.0)}
    for size in (1.0, 3.0, 10.0, 50.0, 100.0):
        found = interpolated(size, measured)
        assert 0.01 + 1e-3 * size <= found * (1 + 1e-12)
        assert found <= measured[100.0] * (1 + 1e-12)
    assert interpolated(10.0, measured) == pytest.approx(measured[10.0], rel=1e-12)
    assert interpolated(1000.0, measured) == pytest.approx(measured[100.0], rel=1e-12)


def test_works_of_one_kind_are_added_up_and_each_shape_is_built_once():
    timings, seconds = time_works([work(1, 0.1), work(1, 0.1), work(4, 0.4, steps=10)])
    assert [one.step_seconds for one in timings] == [0.1, 0.4]
    trained = 2 * (100 * 0.1 + 1000 * 0.01) + 10 * 0.4 + 1000 * 0.04
    assert sum(seconds) == pytest.approx(trained + 1.0 + 4.0)
    _, apart = time_works([work(1, 0.1), work(1, 0.2, comparable=("other",), shape=("other",))])
    assert sum(apart) == pytest.approx(100 * 0.3 + 1000 * 0.03 + 3.0)
    _, alone = time_works([work(1, 0.1, shape=()), work(2, 0.1, shape=())])
    assert sum(alone) == pytest.approx(2 * (100 * 0.1 + 1000 * 0.01))


def test_once_the_time_is_up_only_the_ends_are_timed(monkeypatch):
    monkeypatch.setattr(module, "MOST_SECONDS", 0.0)
    timings, seconds = time_works([work(size, 0.1 * size, shape=()) for size in (1, 2, 4)])
    assert [one.step_seconds for one in timings] == [0.1, 0.4]
    assert sum(seconds) == pytest.approx((0.1 + 0.2 + 0.4) * (100 + 100), rel=1e-9)


@pytest.fixture
def compiler(monkeypatch):
    """torch.compile without a compiler for C++; counts the calls of its programs."""
    calls = Counter()
    programs = compiled(calls)
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: programs)
    return calls


def time_one(plan, **options):
    works, _ = deal_packs(plan.chains, CPU, FleetOptions(budget=4.0, **options))
    timings, seconds = time_works(works)
    share = Share(chains=len(plan.chains), training_runs=6, seconds=sum(seconds))
    return timings, words(Estimate(device="cpu", packs=tuple(timings), packed=share), plan)


def test_packs_that_the_fleet_compiles_are_timed_compiled_if_that_is_quick(compiler, monkeypatch):
    plan = parsed(BRIEF.replace("[100, 200]", "64"))
    (one,), told = time_one(plan, compile=True)
    assert (one.mode, one.uncompiled) == ("compiled", False)
    assert min(compiler[name] for name in ("gather", "forward", "update")) > 0
    assert "timed uncompiled" not in told
    monkeypatch.setattr(module, "COMPILED_DEPTH", 2)
    (one,), told = time_one(plan, compile=True)
    assert (one.mode, one.uncompiled) == ("eager", True)
    assert "Some packs were timed uncompiled. A fleet compiles them, which makes them faster." in told
    (one,), told = time_one(plan)
    assert (one.mode, one.uncompiled) == ("eager", False)
    assert "timed uncompiled" not in told


def test_where_compiling_fails_the_uncompiled_time_counts(monkeypatch, caplog):
    def refuse(*given):
        raise ValueError("no compiler")

    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: dataclasses.replace(EAGER, forward=refuse))
    (one,), _ = time_one(parsed(BRIEF.replace("[100, 200]", "64")), compile=True)
    assert one.mode == "eager"
    assert "no compiler" in caplog.text


def test_a_pack_too_large_for_the_memory_counts_as_its_halves(monkeypatch, caplog):
    whole = parsed(BRIEF.replace("[100, 200]", "64").replace("width = 0.5", "width = [0.5, 1]"))
    built = []

    def limited(most, build=runner_pool.RunnerPool.build):
        def refuse(pool, kind, shape, chain, **given):
            if sum(shape) > most:
                raise torch.OutOfMemoryError("out of memory")
            built.append(shape)
            return build(pool, kind, shape, chain, **given)

        return refuse

    monkeypatch.setattr(runner_pool.RunnerPool, "build", limited(2.0))
    (one,), _ = time_one(whole)
    assert (one.widths, built) == ((1, 1, 0.5, 0.5), [(1, 0.5)])
    assert "A pack of width 3 does not fit into the memory of cpu." in caplog.text
    monkeypatch.setattr(runner_pool.RunnerPool, "build", limited(0.5))
    with pytest.raises(
        PrunecastError, match="depth 3 and width 1 does not fit into the memory of cpu; remove"
    ):
        time_one(whole)


def test_a_time_says_how_the_chains_train():
    plan = read_plan("cifar10-vgg", scale="smoke")
    share = Share(chains=2, training_runs=6, seconds=4e8)
    packed = words(Estimate(device="NVIDIA H200", packed=share, packs=(timing(),)), plan)
    assert (
        "At most about 12 y 250 d on NVIDIA H200: 2 chains, at most 6 training runs, packed as a fleet. "
        in packed
    )
    assert "vgg 16 2 1.5 128 eager 10.00 10.0" in packed
    assert "A fleet trains several at once, which may take less or somewhat more." in packed
    alone = words(Estimate(device="NVIDIA H200", alone=share), plan)
    assert (
        "At most 12 y 250 d on NVIDIA H200: 2 chains, at most 6 training runs, one after the other. " in alone
    )
    two = words(Estimate(device="cpu", alone=share), plan, jobs=2)
    assert "At most 6 y 125 d on cpu: 2 chains, at most 6 training runs, 2 at a time. " in two

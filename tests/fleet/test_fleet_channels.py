"""A fleet trains networks that lost channels in narrower slots, and writes the same store as the plain loop."""

import copy
import dataclasses
import itertools
import threading
import time

import pytest
import torch
from digits_chains import numbers
from fleet_digits import ANY, chain, fleet, folders, jobs_of, open_double, plain
from test_fleet_equals_plain import MODERN, assert_same_store, interrupted_when

from prunecast import data
from prunecast.fleet import level, runner_pool
from prunecast.fleet.chains import open_member
from prunecast.fleet.slots import Slot, SlotAdapter, assign_slots, multiply_adds_in, sliced_shape, slot_of
from prunecast.pruning import open_chain, read_tensors, run_chain
from prunecast.spec import Method
from prunecast.training import State

RESNET = {"family": "cifar_resnet", "depth": 8, "num_examples": 50, "recipe": {"epochs": 2, "rewind": 1.0}}
CHANNELS = Method(name="own", structure="channels", fraction=0.3)


@pytest.fixture
def built(monkeypatch):
    """The shapes of the packs that were built."""
    shapes, build = [], runner_pool.RunnerPool.build

    def noted(pool, kind, shape, chain, **given):
        shapes.append(shape)
        return build(pool, kind, shape, chain, **given)

    monkeypatch.setattr(runner_pool.RunnerPool, "build", noted)
    return shapes


def is_sliced(shape):
    return any(isinstance(slot, Slot) for slot in shape)


@pytest.mark.parametrize("score", ["magnitude", "random"])
def test_channels(tmp_path, score):
    method = Method(name="own", structure="channels", score=score)
    jobs = jobs_of([chain(width=width, method=method, recipe=MODERN) for width in (1.0, 0.5)], cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


@pytest.mark.parametrize("changes", [{}, {"recipe": MODERN}, pytest.param(RESNET, marks=pytest.mark.slow)])
def test_later_levels_train_in_narrower_slots(tmp_path, built, changes):
    sizes = [
        chain(width=width, replicate=k, method=CHANNELS, **changes) for width in (1, 0.5) for k in (0, 1)
    ]
    jobs = jobs_of(sizes, cap=5)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet", dataclasses.replace(ANY, budget=4.0)))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    sliced = [shape for shape in built if is_sliced(shape)]
    assert 2 <= len(sliced) < 5 * len(built)
    assert (
        multiply_adds_in(min(sliced, key=multiply_adds_in))
        < multiply_adds_in(max(sliced, key=multiply_adds_in)) / 2
    )
    assert any(len(shape) > 1 for shape in sliced)


@pytest.mark.parametrize(
    ("family", "depth", "width"),
    [
        pytest.param("densenet", 121, 0.125, marks=pytest.mark.slow),
        ("imagenet_resnet", 18, 0.0625),
        ("fleet_own:inverted", 2, 1),
        ("own_networks:channels", 3, 8),
    ],
)
def test_other_families_train_in_narrower_slots(tmp_path, built, family, depth, width):
    method = dataclasses.replace(CHANNELS, fraction=0.7)
    brief = {"num_examples": 50, "recipe": {"epochs": 2, "rewind": 1.0}}
    chosen = {"family": family, "depth": depth, "width": width, "method": method}
    jobs = jobs_of([chain(**chosen, replicate=k, **brief) for k in (0, 1)], cap=1)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert any(map(is_sliced, built))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_single_weights_share_a_pack_with_channels(tmp_path, built):
    methods = (CHANNELS, "imp")
    jobs = jobs_of([chain(width=1.0, method=method) for method in methods], cap=4)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


@pytest.mark.parametrize("others", [fleet, plain])
def test_what_was_stopped_in_a_narrower_slot_goes_on(tmp_path, monkeypatch, others):
    monkeypatch.setattr(runner_pool, "LOADED_STEPS", 16)
    recipe = {**MODERN, "epochs": 30}
    jobs = jobs_of([chain(replicate=k, method=CHANNELS, recipe=recipe) for k in (0, 1)], cap=3)
    plain(jobs, tmp_path / "plain")
    paused = waits_in_a_narrower_slot(monkeypatch, pieces=3)
    with interrupted_when(paused.is_set):
        list(fleet(jobs, tmp_path / "fleet", dataclasses.replace(ANY, checkpoint_seconds=0.0)))
    monkeypatch.undo()
    checkpoints = [own.checkpoint for own in folders(jobs, tmp_path / "fleet") if own.checkpoint.exists()]
    assert checkpoints
    assert all(read_tensors(path)[1]["step"] > 16 for path in checkpoints)
    list(others(jobs, tmp_path / "fleet") or [])
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def waits_in_a_narrower_slot(monkeypatch, pieces):
    """Let the device wait before so many pieces of sliced packs have begun, until the fleet is told to stop."""
    paused, begun, usual = threading.Event(), [], level.LevelTraining._launches

    def launches(own, piece):
        begun.extend([piece] if is_sliced(own.shape) else [])
        while len(begun) == pieces and not own.stopping():
            paused.set()
            time.sleep(0.001)
        return usual(own, piece)

    monkeypatch.setattr(level.LevelTraining, "_launches", launches)
    return paused


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    """Levels 0 to 4 of chains of two widths."""
    found, store = [], tmp_path_factory.mktemp("members")
    for width, cap in itertools.product((1.0, 0.5), range(5)):
        (job,) = jobs_of([chain(width=width, method=CHANNELS)], cap=cap)
        opened = open_double(job.spec, store, job.dataset())
        found.append(open_member(len(found), job, opened, opened.folder.records()))
        plain([job], store)
    return found


def test_a_slot_holds_what_needs_no_more_units_of_its_width(members):
    wide, narrow = members[:5], members[5:]
    for deeper, one in itertools.combinations(wide, 2):
        assert slot_of(deeper).holds(slot_of(one))
        assert not slot_of(one).holds(slot_of(deeper))
    assert not slot_of(wide[0]).holds(slot_of(narrow[0]))
    assert slot_of(wide[3], whole=True) == slot_of(wide[0])


def test_a_shape_is_used_again_until_its_work_is_twice_that_of_its_members(members):
    wide = members[:5]
    assert sliced_shape(wide[:1], [], 2.0) is None  # nothing was removed
    assert sliced_shape(wide[1:2], [], 4.0) is None  # not enough
    first = sliced_shape(wide[2:3], [], 1.0)
    assert first == (slot_of(wide[2]),)
    assert sliced_shape(wide[3:4], [first], 1e9) is None
    ratio = multiply_adds_in(first) / multiply_adds_in([slot_of(wide[3])])
    assert sliced_shape(wide[3:4], [first], ratio * 1.001) == first
    assert sliced_shape(wide[3:4], [first], ratio * 0.999) == (slot_of(wide[3]),)
    assert sliced_shape(wide[1:2], [first], 1.0) == (slot_of(wide[1]),)  # no room


def test_every_member_gets_its_own_slot(members):
    chosen = [members[number] for number in (4, 2, 8, 3, 7)]
    shape = sliced_shape(chosen, [], 1.0)
    found = assign_slots(shape, chosen)
    assert len(set(found)) == len(chosen)
    assert [shape[place] for place in found] == [slot_of(member) for member in chosen]


def test_a_wider_slot_computes_what_the_level_computes(members):
    member = members[4]
    room = slot_of(members[2]).counts
    adapter = SlotAdapter(slicing=member.slicing, room=room)
    state = adapter.to_slot(State(network=dict(member.level.network), optimizer_state={}))
    units, masks = member.slicing.units, adapter.masks(member.level.masks)
    small = units.sliced(member.chain.untrained, units.first(dict(zip(units.names, room, strict=True))))
    small.load_state_dict(state.network | {name: state.network[name] * mask for name, mask in masks.items()})
    whole = copy.deepcopy(member.chain.untrained)
    whole.load_state_dict(member.level.network | member.slicing.whole)
    images = torch.randn(5, 1, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(small.eval()(images), whole.eval()(images), rtol=1e-12, atol=1e-12)
    back = adapter.from_slot(state).network
    for name, tensor in member.slicing.whole.items():
        torch.testing.assert_close(back[name], tensor, rtol=0, atol=0)


def test_heads_and_hidden_units_of_an_own_transformer(tmp_path):
    sizes = [
        chain(family="own_networks:vit", depth=1, width=width, method="imp-channels") for width in (2, 1)
    ]
    jobs = jobs_of(sizes, cap=2)
    plain(jobs, tmp_path / "plain")
    list(fleet(jobs, tmp_path / "fleet"))
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def test_groups_of_weights(tmp_path):
    method = Method(name="own", structure="2:4")
    jobs = jobs_of([chain(width=width, method=method, recipe=MODERN) for width in (1.0, 0.5)], cap=9)
    plain(jobs, tmp_path / "plain")
    finished = list(fleet(jobs, tmp_path / "fleet"))
    assert [done.record.level for done in finished].count(2) == 2
    assert max(done.record.level for done in finished) == 2
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")


def run(job, store):
    return list(run_chain(job.spec, store, job.dataset, rules=job.rules, keep_weights=True))


def test_criteria_that_look_at_images_are_left_to_the_plain_loop(tmp_path):
    own = chain(width=1.0, method=Method(name="own", structure="channels", score="taylor"))
    jobs = jobs_of([own], cap=2, dataset=data.load("digits"))
    finished = list(fleet(jobs, tmp_path / "fleet", opener=open_chain))
    assert numbers(done.record for done in finished) == numbers(run(jobs[0], tmp_path / "plain"))


def test_the_plain_loop_goes_on_with_a_chain_of_a_fleet(tmp_path):
    short, long = (
        jobs_of([chain(width=1.0, method="imp-channels")], cap=cap, dataset=data.load("digits"))
        for cap in (1, 2)
    )
    begun = [done.record for done in fleet(short, tmp_path, opener=open_chain)]
    assert run(long[0], tmp_path)[:2] == begun

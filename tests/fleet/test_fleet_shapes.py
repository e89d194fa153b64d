"""Members are divided into few packs, and one shape fits all of them."""

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from compiled_programs import compiled
from fleet_digits import chain

from prunecast import data
from prunecast.fleet import FleetOptions, runner_pool
from prunecast.fleet.members import kind_of
from prunecast.fleet.queue import BUDGET, deal, fitting, shape_of, slots_by_width
from prunecast.fleet.runner_pool import PacksOfKind, RunnerPool, best_budget
from prunecast.pruning import StopRules, open_chain


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
        slots = slots_by_width(shape, pack)
        assert len(set(slots)) == len(pack)
        assert [shape[slot] for slot in slots] == [member.width for member in pack]


def test_a_shape_that_is_far_too_wide_is_not_used():
    wide, near = (1.0, 0.5, 0.25), (0.5, 0.25)
    assert fitting([wide, near], [Sized(0.25)], 0.75) == near
    assert fitting([wide], [Sized(0.25)], 0.75) is None
    assert fitting([wide], [Sized(0.25), Sized(0.25)], math.inf) is None


@pytest.mark.parametrize(
    ("times", "budget"),
    [
        ({8.0: 1.0, 16.0: 1.0, 32.0: 1.0}, 16.0),
        ({8.0: 1.0, 16.0: 1.04}, 16.0),
        ({8.0: 1.0, 16.0: 1.06, 32.0: 1.2}, 8.0),
        ({8.0: 1.0, 16.0: 0.9, 32.0: 0.8}, 32.0),
        ({8.0: 1.0}, 8.0),
        ({}, 4.0),
    ],
)
def test_the_usual_budget_is_kept_unless_another_is_clearly_better(times, budget):
    assert best_budget(times) == budget


def test_a_pack_that_cannot_be_built_leaves_the_usual_budget(tmp_path, caplog):
    one = open_chain(chain(), tmp_path, data.load("digits"))
    nobody = dataclasses.replace(kind_of(one), family="no_such_module:family")
    pool = RunnerPool([], FleetOptions())
    pool.add(nobody, one)
    members = [SimpleNamespace(width=1.0, chain=one)]
    assert pool.measured_budget(nobody, members, [8.0, 16.0]) == BUDGET
    assert "no_such_module" in caplog.text


def test_runners_from_before_stacks_failed_are_not_used_again(tmp_path):
    one = open_chain(chain(family="vit_patch4", depth=1, width=0.0625), tmp_path, data.load("digits"))
    kind, shape = kind_of(one), (0.0625,)
    pool = RunnerPool([one.spec], FleetOptions())
    pool.add(kind, one)
    training = pool.take(kind, shape, one)
    assert training.trainer.pack.layout.kind == "stacked"
    assert pool.unstack(kind, RuntimeError("no kernel for this"))
    pool.give_back(kind, shape, training)
    assert pool.take(kind, shape, one).trainer.pack.layout.kind == "alone"


def test_a_failed_stack_is_not_counted_among_networks_alone(tmp_path, monkeypatch):
    one = open_chain(chain(family="vit_patch4", depth=1, width=0.0625), tmp_path, data.load("digits"))
    kind, shape = kind_of(one), (0.0625,)
    pool = RunnerPool([one.spec], FleetOptions())
    pool.add(kind, one)
    stacked = pool.take(kind, shape, one)
    pool.unstack(kind, RuntimeError("no kernel for this"))
    alone = pool.take(kind, shape, one)
    pool.discard(kind, shape, stacked)
    pool.give_back(kind, shape, alone)
    pool.shrink(kind, shape)
    monkeypatch.setattr(pool, "_has_room", lambda *_: False)
    assert pool.take(kind, shape, one) is not None, "no other pack will give its runner back"


def test_compiled_runners_are_not_used_again_once_one_has_failed(tmp_path, monkeypatch):
    monkeypatch.setattr(runner_pool, "compiled_programs", lambda: compiled(Counter()))
    one = open_chain(chain(), tmp_path, data.load("digits"))
    kind, shape = kind_of(one), (1.0, 1.0)
    pool = RunnerPool([one.spec], FleetOptions(compile=True))
    pool.add(kind, one)
    failed, training = (pool.take(kind, shape, one) for _ in range(2))
    assert (failed.mode, training.mode) == ("compiled", "compiled")
    assert pool.give_up(kind, shape, failed, RuntimeError("no kernel for this"))
    pool.give_back(kind, shape, training)
    assert pool.take(kind, shape, one).mode == "eager"


@dataclass(frozen=True, eq=False)
class Trainee(Sized):
    steps: int = 1000
    levels: int = 1

    @property
    def level(self):
        return SimpleNamespace(first=0, last=self.steps, level=0)

    @property
    def job(self):
        return SimpleNamespace(rules=StopRules(level_cap=self.levels - 1))


@pytest.mark.parametrize(
    ("compiled", "fused", "levels", "wanted", "given"),
    [
        (True, False, 20, [1.0] * 3, (1.0,) * 16),  # 20,000 steps do not pay for another minute of compiling
        (True, False, 2000, [1.0] * 3, (1.0,) * 3),  # 2,000,000 do
        (None, False, 20, [1.0] * 3, (1.0,) * 3),  # so few steps are not compiled
        (None, False, 60, [1.0] * 10, (1.0,) * 16),
        (None, True, 20, [1.0] * 3, (1.0,) * 3),  # 13 empty slots of a fused pack cost more than another
        (None, True, 20, [1.0] * 15, (1.0,) * 16),
        (True, False, 20, [0.5], (0.5,)),  # nothing that holds it is there
        (False, False, 20, [1.0] * 9, (1.0,) * 16),
        (False, False, 20, [1.0] * 3, (1.0,) * 3),
    ],
)
def test_few_ready_chains_take_the_narrowest_shape_that_pays(compiled, fused, levels, wanted, given):
    known, full = PacksOfKind(compiling=compiled), [Trainee(1.0, levels=levels) for _ in range(16)]
    assert known.shape(full, fused=fused) == (1.0,) * 16
    assert known.shape([Trainee(width, levels=levels) for width in wanted], fused=fused) == given
    assert known.shape(full, fused=fused) == (1.0,) * 16

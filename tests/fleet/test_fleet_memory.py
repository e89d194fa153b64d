"""A pack that runs out of memory, as only GPUs do, is freed before smaller packs are built."""

import gc
import weakref
from types import SimpleNamespace

import pytest
import torch
from fleet_digits import ANY, chain, fleet, jobs_of, plain
from test_fleet_equals_plain import assert_same_store

from prunecast import data
from prunecast.fleet import FleetOptions, runner_pool
from prunecast.fleet.members import kind_of
from prunecast.fleet.runner import Runner
from prunecast.fleet.runner_pool import RunnerPool
from prunecast.pruning import open_chain

WIDTHS = (0.5, 0.25, 0.25)


class Large:
    """Something that takes memory."""


@pytest.fixture
def freed(monkeypatch):
    """Makes packs of several networks too large to build; gives what of them was freed when memory was released."""
    made, alive, make, release = [], [], runner_pool.make_runner, runner_pool.release_memory

    def making(trainer, *rest):
        if trainer.pack.slots > 1:
            large = Large()
            made.append(weakref.ref(large))
            raise torch.OutOfMemoryError("out of memory")
        return make(trainer, *rest)

    def releasing():
        gc.collect()
        alive.append(sum(own() is not None for own in made))
        release()

    monkeypatch.setattr(runner_pool, "make_runner", making)
    monkeypatch.setattr(runner_pool, "release_memory", releasing)
    return alive


def test_a_pack_that_cannot_be_built_is_freed_before_smaller_ones_are_built(tmp_path, freed, caplog):
    jobs = jobs_of([chain(width=width, replicate=k) for k, width in enumerate(WIDTHS)], cap=1)
    plain(jobs, tmp_path / "plain")
    assert len(list(fleet(jobs, tmp_path / "fleet"))) == 2 * len(WIDTHS)
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert "A pack of width 1 does not fit into the memory; trying 0.5." in caplog.text
    assert set(freed) == {0}


def test_a_pack_that_runs_out_of_memory_in_a_level_trains_in_halves(tmp_path, monkeypatch, caplog):
    advance = Runner.advance

    def advancing(runner, steps):
        if runner.trainer.pack.slots > 1:
            raise torch.OutOfMemoryError("out of memory")
        advance(runner, steps)

    monkeypatch.setattr(Runner, "advance", advancing)
    jobs = jobs_of([chain(width=width, replicate=k) for k, width in enumerate(WIDTHS)], cap=1)
    plain(jobs, tmp_path / "plain")
    assert len(list(fleet(jobs, tmp_path / "fleet"))) == 2 * len(WIDTHS)
    assert_same_store(jobs, tmp_path / "fleet", tmp_path / "plain")
    assert "A pack of width 1 does not fit into the memory; trying 0.5." in caplog.text


def test_packs_that_are_timed_leave_nothing_behind_where_the_memory_is_too_small(tmp_path, freed):
    one = open_chain(chain(), tmp_path, data.load("digits"))
    pool = RunnerPool([], FleetOptions())
    pool.add(kind_of(one), one)
    members = [SimpleNamespace(width=1.0, chain=one)]
    assert pool.measured_budget(kind_of(one), members, [8.0, 16.0]) == 4.0
    assert freed == [0]
    assert pool._kinds[kind_of(one)].prototypes == {}


def test_packs_that_are_too_large_are_forgotten(tmp_path):
    one = open_chain(chain(), tmp_path, data.load("digits"))
    pool = RunnerPool([one.spec], ANY)
    pool.add(kind_of(one), one)
    for shape in ((1.0,), (1.0, 1.0)):
        pool.give_back(kind_of(one), shape, pool.take(kind_of(one), shape, one))
    pool.shrink(kind_of(one), (1.0, 1.0))
    assert set(pool._kinds[kind_of(one)].prototypes) == {(1.0,)}

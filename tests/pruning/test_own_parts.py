"""Criterion × structure × schedule: each can be a user's own, and is checked."""

import dataclasses
import math
import threading

import pytest
import tiny
import torch
from own_parts import LAYERWISE, by_position
from whole_rows import halving

from prunecast import spec
from prunecast.errors import PrunecastError
from prunecast.plugins import load_plugins
from prunecast.pruning import (
    Criterion,
    chain_folder,
    register_criterion,
    register_schedule,
    register_structure,
)
from prunecast.pruning.masks import full_masks
from prunecast.pruning.prune import kept_at, next_masks
from prunecast.spec import MODULE_CALLS, Method

WEIGHTS = {"a": torch.ones(2, 3), "b": torch.ones(4)}


def pruned(method, weights=WEIGHTS, **options):
    masks = next_masks(tiny.context(method, full_masks(weights), weights, **options))
    return {name: mask.int().tolist() for name, mask in masks.items()}


def method(**fields):
    return Method(name="own", **fields)


@pytest.mark.parametrize("name", ["by_position", "as_arrays"])
def test_a_function_is_a_criterion(name):
    own = method(score=f"own_parts:{name}", fraction=0.5)
    assert pruned(own) == {"a": [[0, 0, 0], [1, 1, 1]], "b": [0, 0, 1, 1]}


def test_a_criterion_may_compare_within_layers():
    assert pruned(method(score="own_parts:LAYERWISE", fraction=0.25)) == {
        "a": [[0, 0, 1], [1, 1, 1]],
        "b": [0, 1, 1, 1],
    }


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("incomplete", "there are no scores for 'a'"),
        ("misshapen", r"the scores of 'a' have shape \(6,\); its weights have \(2, 3\)"),
        ("undefined", "a score of 'a' is not a number"),
        ("NUMBER", "criterion 'own_parts:NUMBER' is int; it must be a function"),
        ("missing", "the module own_parts has no attribute 'missing'"),
    ],
)
def test_what_cannot_score_is_refused(name, problem):
    with pytest.raises(PrunecastError, match=problem):
        pruned(method(score=f"own_parts:{name}"))


def test_a_missing_criterion_is_refused_before_anything_is_trained(tmp_path):
    own = tiny.chain(method=method(score="no_such_module:score"))
    with pytest.raises(PrunecastError, match="cannot import criterion 'no_such_module:score'"):
        tiny.run(tmp_path, own)
    assert not (chain_folder(tmp_path, own).path / "spec.json").exists()


@pytest.mark.parametrize("retraining", ["weight-rewinding", "fine-tuning", "from-start"])
def test_an_own_criterion_runs_a_chain(tmp_path, retraining):
    own = tiny.chain(method=method(score="own_parts:called", retraining=retraining, substeps=3))
    records = tiny.run(tmp_path, own, cap=2)
    weights = records[0].weights
    assert [record.nonzero for record in records] == [kept_at(own.method, weights, k) for k in range(3)]


def test_an_own_criterion_waits_for_the_module_lock():
    found = []
    own = method(score="own_parts:by_position")
    thread = threading.Thread(target=lambda: found.append(pruned(own)))
    with MODULE_CALLS:
        thread.start()
        thread.join(0.2)
        assert not found
    thread.join()
    assert found


def test_rows_go_as_a_whole(tmp_path):
    channelwise = method(structure="whole_rows:Rows", score="layerwise-magnitude")
    own = tiny.chain(method=channelwise, width=1.0)
    records = tiny.run(tmp_path, own, cap=3)
    folder = chain_folder(tmp_path, own)
    assert len(records) == 4
    for record in records[1:]:
        sizes = 0
        for mask in folder.masks(record.level).values():
            rows = mask.flatten(1)
            kept = rows[rows.any(dim=1)]
            assert bool(kept.all())
            assert len(kept) == kept_at(channelwise, len(rows), record.level)
            sizes += kept.numel()
        assert (record.nonzero, record.density) == (sizes, sizes / records[0].weights)


def test_rows_can_be_compared_within_layers():
    weights = {"a": torch.tensor([[1.0, 1.0], [2.0, 0.5]]), "b": torch.tensor([[3.0], [2.0], [4.0]])}
    own = method(structure="whole_rows:Rows", score="layerwise-magnitude", fraction=0.4)
    assert pruned(own, weights) == {"a": [[0, 0], [1, 1]], "b": [[0], [0], [1]]}


def test_an_exact_number_of_weights_needs_single_weights():
    with pytest.raises(PrunecastError, match="final_nonzero needs a method that prunes single weights"):
        tiny.chain(method=method(structure="whole_rows:Rows"), final_nonzero=10)


def test_a_schedule_sets_the_fraction_of_each_level(tmp_path):
    own = tiny.chain(method=method(schedule="whole_rows:halving"))
    expected = [tiny.run(tmp_path / "whole", cap=0)[0].weights]
    for level in (1, 2, 3):
        expected.append(expected[-1] - math.ceil(halving(own.method, level) * expected[-1]))
    assert [record.nonzero for record in tiny.run(tmp_path, own)] == expected


def test_a_schedule_that_removes_everything_is_refused():
    with pytest.raises(PrunecastError, match=r"the fraction of level 1 is 1\.0"):
        pruned(method(schedule="own_parts:everything"))


@pytest.mark.parametrize("field", ["score", "structure", "schedule"])
@pytest.mark.parametrize("name", ["unheard-of", ":score", "module:", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(field, name):
    known = {"score": "magnitude", "structure": "weights", "schedule": "constant"}[field]
    with pytest.raises(PrunecastError, match=f"{field} is '{name}'; choose one of {known}.*module:attribute"):
        method(**{field: name})


def test_the_digest_tells_own_parts_apart_by_name():
    plain = tiny.chain(method=method())
    assert plain.digest == tiny.chain(method="imp").digest
    named = [
        dataclasses.replace(plain, method=method(**{field: name}))
        for field in ("score", "structure", "schedule")
        for name in ("own_parts:one", "own_parts:two")
    ]
    assert len({own.digest for own in (plain, *named)}) == 7
    assert spec.from_dict(spec.as_dict(named[0])) == named[0]


PLUGIN = """
from prunecast.pruning import Criterion, register_criterion
from own_parts import by_position
register_criterion(Criterion(name="first", score=by_position))
"""


def test_a_plugin_registers_a_criterion_that_plans_name(tmp_path, monkeypatch):
    (tmp_path / "first_criterion.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PRUNECAST_PLUGINS", "first_criterion")
    load_plugins.cache_clear()
    try:
        assert pruned(method(score="first", fraction=0.5))["b"] == [0, 0, 1, 1]
    finally:
        load_plugins.cache_clear()


def test_registered_parts_are_found_by_name():
    assert register_criterion(LAYERWISE) is LAYERWISE
    assert register_criterion(Criterion(name="positions", score=by_position)).name == "positions"
    register_schedule("halving", halving)
    register_structure("all", lambda model: pytest.fail("not needed"))
    assert pruned(method(score="positions", schedule="halving"))["a"] == [[0, 0, 0], [1, 1, 1]]

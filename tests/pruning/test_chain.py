import dataclasses

import pytest
import torch
from digits_chains import numbers
from safetensors.torch import load_file
from tiny import CHAIN, chain, digits, run

from prunecast.pruning import StopRules, chain_folder, open_chain, open_level, run_chain
from prunecast.pruning.chain import choose_examples
from prunecast.pruning.masks import count_kept
from prunecast.pruning.prune import kept_at
from prunecast.pruning.run import chain_trainer, load_level
from prunecast.pruning.store import read_packed
from prunecast.training import copy_state, stepper, train

METHODS = ["imp", "imp-layerwise", "imp-rate-rewinding", "imp-fine-tuning", "random", "none", "synflow"]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_a_whole_chain(tmp_path, method):
    spec = chain(method=method)
    records = run(tmp_path, spec)
    assert [record.level for record in records] == [0, 1, 2, 3]
    total = records[0].weights
    kept = [total] * 4 if method == "none" else [kept_at(spec.method, total, level) for level in range(4)]
    if method != "imp-layerwise":
        assert [record.nonzero for record in records] == kept
    for record in records:
        assert record.density == record.nonzero / total
        assert 0 < record.effective_density <= record.density
        assert 0 < record.error < 1
        assert record.status == "ok"
        assert record.chance_error == digits().chance_error
    times = open_chain(spec, tmp_path, digits()).times
    later = times.total if method == "synflow" else times.total - times.rewind
    assert [record.steps for record in records] == [times.total, later, later, later]
    assert not list(tmp_path.glob("chains/*/checkpoint*"))
    assert len(list(tmp_path.glob("chains/*/start*"))) == (
        method in ("imp-rate-rewinding", "imp-fine-tuning")
    )


@pytest.mark.parametrize("method", ["imp", "imp-rate-rewinding", "imp-fine-tuning", "synflow"])
def test_stored_weights_are_zero_where_pruned_and_nowhere_else(tmp_path, method):
    spec = chain(method=method)
    run(tmp_path, spec, keep_weights=True)
    folder = chain_folder(tmp_path, spec)
    for level in (1, 2, 3):
        weights = load_file(folder.weights(level))
        for name, mask in folder.masks(level).items():
            assert torch.equal(weights[name] != 0, mask)


def test_each_level_prunes_the_smallest_weights_of_the_level_before(tmp_path):
    run(tmp_path, keep_weights=True)
    folder = chain_folder(tmp_path, CHAIN)
    for level in (1, 2, 3):
        weights, masks = load_file(folder.weights(level - 1)), folder.masks(level)
        kept = torch.cat([weights[name][mask].abs() for name, mask in masks.items()])
        gone = torch.cat([weights[name][~mask].abs() for name, mask in masks.items()])
        assert gone.max() <= kept.min()


def test_rewound_weights_equal_those_of_the_rewind_point_bit_for_bit(tmp_path):
    opened = open_chain(CHAIN, tmp_path / "unbroken", digits())
    bench = chain_trainer(opened)
    train(bench, stepper(bench), 0, opened.times.rewind)
    at_rewind = copy_state(bench).network
    for cap in (1, 6):
        records = run(tmp_path, cap=cap)
        opened = open_chain(CHAIN, tmp_path, digits())
        level = open_level(opened, records)
        assert (level.first, level.last) == (opened.times.rewind, opened.times.total)
        bench = chain_trainer(opened)
        load_level(opened, level, bench)
        start = copy_state(bench)
        for name, tensor in at_rewind.items():
            mask = level.masks.get(name, torch.ones((), dtype=torch.bool))
            assert torch.equal(start.network[name], torch.where(mask, tensor, torch.zeros_like(tensor)))
        assert all(torch.count_nonzero(slot) == 0 for slot in start.optimizer_state.values())
        assert any(torch.count_nonzero(tensor) for name, tensor in at_rewind.items() if "running" in name)


def test_rewound_weights_are_stored_at_surviving_positions(tmp_path):
    folder = chain_folder(tmp_path, CHAIN)
    run(tmp_path, cap=0)
    full = open_chain(CHAIN, tmp_path, digits()).full
    whole, size = read_packed(folder.rewind, folder, full), folder.rewind.stat().st_size
    run(tmp_path, cap=6)
    later = read_packed(folder.rewind, folder, full)
    masks = folder.masks(7)
    assert folder.rewind.stat().st_size < size
    assert all(torch.equal(later[name][mask], whole[name][mask]) for name, mask in masks.items())


@pytest.mark.parametrize("method", ["imp-rate-rewinding", "imp-fine-tuning"])
def test_other_retrainings_start_from_the_last_weights(tmp_path, method):
    spec = chain(method=method)
    records = run(tmp_path, spec, cap=1, keep_weights=True)
    opened = open_chain(spec, tmp_path, digits())
    level = open_level(opened, records)
    last = load_file(opened.folder.weights(1))
    for name, mask in level.masks.items():
        assert torch.equal(level.network[name], torch.where(mask, last[name], 0.0))
    length = opened.times.total - opened.times.rewind
    first = opened.times.total if method == "imp-fine-tuning" else opened.times.rewind
    assert (level.first, level.last) == (first, first + length)


def test_one_seed_is_one_chain_and_two_seeds_are_two(tmp_path):
    one, two = run(tmp_path / "one"), run(tmp_path / "two")
    other = run(tmp_path / "one", chain(replicate=1))
    assert numbers(one) == numbers(two)
    assert [record.loss for record in one] != [record.loss for record in other]


def test_checkpoints_do_not_change_the_numbers(tmp_path):
    often, never = chain(), chain(recipe={"checkpoint_steps": 10_000})
    assert often.digest == never.digest
    assert numbers(run(tmp_path / "often", often)) == numbers(run(tmp_path / "never", never))


def test_finished_levels_are_read_and_not_trained_again(tmp_path):
    first = run(tmp_path)

    def no_data():
        raise AssertionError("nothing is left to train, so no data is needed")

    again = list(run_chain(CHAIN, tmp_path, no_data, rules=StopRules(level_cap=3)))
    assert again == first


def test_a_raised_cap_continues_and_a_lowered_one_shows_less(tmp_path):
    whole = run(tmp_path / "whole", cap=4)
    assert [record.level for record in run(tmp_path, cap=1)] == [0, 1]
    assert numbers(run(tmp_path, cap=4)) == numbers(whole)
    assert numbers(run(tmp_path, cap=2)) == numbers(whole[:3])


def test_a_chain_ends_when_disconnected(tmp_path):
    records = run(tmp_path, chain(width=0.25, recipe={"epochs": 1, "rewind": 0}), cap=60)
    assert records[-1].following.connected is False
    assert all(record.effective_density > 0 for record in records)
    assert records[-1].level < 60


def test_a_chain_ends_after_three_levels_at_chance(tmp_path):
    hopeless = chain(recipe={"learning_rate": 1e-9, "steps": 10, "rewind": 0}, method="random")
    rules = StopRules(level_cap=60, at_chance=3)
    records = list(run_chain(hopeless, tmp_path, digits, rules=rules))
    bad = [record.error >= record.chance_error - 1e-9 for record in records]
    assert bad[-3:] == [True] * 3
    assert not any(all(bad[i : i + 3]) for i in range(len(bad) - 3))
    assert records[-1].following.connected


@pytest.mark.parametrize("method", ["imp", "synflow"])
def test_a_divergence_is_recorded(tmp_path, method):
    spec = chain(method=method, recipe={"learning_rate": 1e30, "momentum": 0})
    records = run(tmp_path, spec)
    assert {record.status for record in records} == {"diverged"}
    assert all(record.error == record.chance_error and record.loss is None for record in records)
    assert {record.steps for record in records} == {8}, "it was noticed at the end of the first epoch"
    assert len(records) == (1 if method == "imp" else 4), "levels of SynFlow do not depend on one another"
    assert run(tmp_path, spec) == records


def test_a_network_that_is_not_understood_is_pruned_all_the_same(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "gated_family.py").write_text(
        "from torch import nn\n"
        "class Gated(nn.Module):\n"
        "    def __init__(self, classes):\n"
        "        super().__init__()\n"
        "        self.a, self.b = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3)\n"
        "        self.head = nn.Linear(4, classes)\n"
        "    def forward(self, x):\n"
        "        return self.head((self.a(x) * self.b(x)).mean((2, 3)))\n"
        "def gated(depth, width, num_classes):\n"
        "    return Gated(num_classes)\n"
    )
    records = run(tmp_path / "store", chain(family="gated_family:gated"))
    assert [record.effective_density for record in records] == [None] * 4
    assert "'mul' is not understood" in records[0].note
    assert records[-1].nonzero == kept_at(CHAIN.method, records[0].weights, 3)


def test_validation_examples_are_held_out(tmp_path):
    spec = chain(recipe={"validation_examples": 100})
    examples, held = choose_examples(spec, 600)
    assert (len(examples), len(held), len(set(examples) & set(held))) == (200, 100, 0)
    other, _ = choose_examples(dataclasses.replace(spec, replicate=1), 600)
    assert set(examples) != set(other)
    records = run(tmp_path, spec, cap=0)
    assert 0 < records[0].validation_error < 1


def test_synflow_levels_are_trainings_of_their_own(tmp_path):
    spec = chain(method="synflow")
    records = run(tmp_path, spec, cap=2)
    opened = open_chain(spec, tmp_path, digits())
    level = open_level(opened, records)
    assert (level.first, level.last) == (0, opened.times.total)
    untrained = opened.untrained.state_dict()
    assert all(torch.equal(level.network[name], tensor) for name, tensor in untrained.items())
    assert count_kept(level.masks) == kept_at(spec.method, records[0].weights, 3)

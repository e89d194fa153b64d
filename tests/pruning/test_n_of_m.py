"""Of each M weights along a layer's inputs N are kept: which, level by level, and where the chain ends."""

import dataclasses

import pytest
import tiny
import torch
from digits_chains import numbers
from torch import nn

from prunecast import families
from prunecast.errors import PrunecastError
from prunecast.pruning import NOfM, chain_folder, verify_store
from prunecast.pruning.masks import count_kept, full_masks
from prunecast.pruning.prune import check_structure, next_masks
from prunecast.spec import Method

SHAPE = (1, 8, 8)


def method(structure="2:4", **fields):
    return Method(name="own", structure=structure, **fields)


def network():
    """A convolution of one channel, which cannot be divided, one of eight, a transposed one and a linear layer."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.ConvTranspose2d(4, 3, 2), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(75, 8), nn.ReLU(), nn.Linear(8, 3)).requires_grad_(False)


def pruned(own, model, masks=None, *, level=1, final=None):
    weights = {name: model.get_parameter(name) for name in families.prunable(model)}
    context = tiny.context(
        own, masks or full_masks(weights), weights, level=level, model=model, image_shape=SHAPE
    )
    return next_masks(context, final)


def groups(tensor, axis, size):
    """One row per group, written out index by index."""
    moved = tensor.transpose(axis, 0)
    return torch.cat(
        [moved[first : first + size].reshape(size, -1).T for first in range(0, len(moved), size)]
    )


GROUPED = {"2.weight": 1, "3.weight": 0, "7.weight": 1}
DENSE = ("0.weight", "5.weight")


def test_each_level_removes_the_lowest_of_every_group_until_n_are_left():
    model, masks = network(), None
    for level, kept in ((1, 3), (2, 2), (3, 2)):
        masks = pruned(method(), model, masks, level=level)
        for name, axis in GROUPED.items():
            weights = groups(model.get_parameter(name).abs(), axis, 4)
            found = groups(masks[name], axis, 4)
            expected = torch.zeros_like(found).scatter(1, weights.topk(kept, dim=1).indices, True)
            assert torch.equal(found, expected)
        assert all(bool(masks[name].all()) for name in DENSE)
    assert masks["2.weight"].shape == model[2].weight.shape


def test_planted_weights():
    layer = nn.Sequential(nn.Flatten(), nn.Linear(8, 2, bias=False)).requires_grad_(False)
    layer[1].weight.copy_(torch.tensor([[1.0, -5, 2, 3, 0, 0, 0, 0], [4, 3, -2, 1, -1, 2, -3, 4]]))
    masks = pruned(method(), layer, pruned(method(), layer), level=2)
    assert masks["1.weight"].int().tolist() == [[0, 1, 0, 1, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0, 1, 1]]
    masks = pruned(method("1:2"), layer)
    assert masks["1.weight"].int().tolist() == [[0, 1, 0, 1, 0, 1, 0, 1], [1, 0, 1, 0, 0, 1, 0, 1]]


def test_infinite_scores_remove_no_weight_twice():
    layer = nn.Sequential(nn.Flatten(), nn.Linear(4, 1, bias=False)).requires_grad_(False)
    layer[1].weight.fill_(torch.inf)
    first = pruned(method(), layer)
    assert first["1.weight"].int().tolist() == [[0, 1, 1, 1]]
    assert pruned(method(), layer, first, level=2)["1.weight"].int().tolist() == [[0, 0, 1, 1]]


def test_layers_that_cannot_be_divided_are_listed():
    structure = NOfM(keep=2, group=4, model=network())
    assert [(own.name, own.parameters) for own in structure.kept_dense()] == [
        ("0.weight", 72),
        ("5.weight", 600),
    ]
    masks, counts = None, []
    for level in (1, 2):
        masks = pruned(method(), network(), masks, level=level)
        counts.append(count_kept(masks))
    assert structure.counts() == (72 + 288 + 48 + 600 + 24, *counts)


def test_attention_is_divided_along_its_inputs():
    model = nn.MultiheadAttention(8, 2)
    weights = {name: model.get_parameter(name) for name in families.prunable(model)}
    masks = next_masks(tiny.context(method("1:8"), full_masks(weights), weights, model=model))
    assert {name: mask.sum(1).unique().tolist() for name, mask in masks.items()} == {
        "in_proj_weight": [7],
        "out_proj.weight": [7],
    }


def test_no_more_is_removed_than_asked_for():
    model = network()
    first = pruned(method(), model)
    assert pruned(method(), model, first, level=2, final=count_kept(first)) == first


@pytest.mark.parametrize(
    ("structure", "fields", "problem"),
    [
        ("3:2", {}, "structure 3:2 keeps 3 of each 2 weights; give N:M with N at least 1 and less than M"),
        ("4:4", {}, "less than M, such as 2:4"),
        ("0:4", {}, "structure 0:4 keeps 0 of each 4 weights"),
        ("2:", {}, "structure is '2:'"),
        ("2:" + "9" * 5000, {}, "structure is '2:999"),
        ("\u0662:\u0664", {}, "structure is "),
        ("2:04", {}, "structure is '2:04'"),
        ("2:4", {"fraction": 0.5}, "removes one of each 4 weights per level; leave fraction out"),
        ("2:4", {"fraction_of": "parameters"}, "fraction_of parameters needs structure = 'channels'"),
        ("2:4", {"score": "norm-scale"}, "compares whole channels"),
    ],
)
def test_what_makes_no_sense_is_refused(structure, fields, problem):
    with pytest.raises(PrunecastError, match=problem):
        method(structure, **fields)


def test_a_network_without_any_group_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(63, 3))
    with pytest.raises(PrunecastError, match="no layer has a number of inputs that is a multiple of 4"):
        check_structure(method(), model, SHAPE)
    check_structure(method("2:3"), model, SHAPE)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"retraining": "rate-rewinding", "score": "random"},
        {"score": "taylor"},
        {"score": "synflow", "retraining": "from-start"},
    ],
)
def test_a_chain_ends_after_the_level_n_of_m(tmp_path, fields):
    own = tiny.chain(method=method(**fields), width=1.0)
    records = tiny.run(tmp_path, own, cap=9)
    assert [record.level for record in records] == [0, 1, 2]
    assert records[-1].following.exhausted
    first = records[0]
    dense = 8 * 9  # the first convolution reads one channel
    for record in records:
        assert record.nonzero == dense + (first.weights - dense) * (4 - record.level) // 4
        assert record.density == record.nonzero / record.weights
        assert record.dead_layers == ()
        assert (record.bytes, record.multiply_adds) == (first.bytes, first.multiply_adds)
        assert record.remaining_parameters == record.parameters - record.weights + record.nonzero
    masks = chain_folder(tmp_path, own).masks(2)
    assert all(bool((groups(mask, 1, 4).sum(1) == 2).all()) for mask in list(masks.values())[1:])
    assert not verify_store(tmp_path).faults


def test_a_chain_goes_on_where_it_was_stopped(tmp_path):
    own = tiny.chain(method=method(), width=1.0)
    whole = tiny.run(tmp_path / "whole", own, cap=9)
    assert numbers(tiny.run(tmp_path / "parts", own, cap=1)) == numbers(whole[:2])
    assert numbers(tiny.run(tmp_path / "parts", own, cap=9)) == numbers(whole)


def test_every_structure_has_its_own_digest():
    plain = tiny.chain()
    others = [dataclasses.replace(plain, method=method(structure)) for structure in ("2:4", "1:4", "4:8")]
    assert len({own.digest for own in (plain, *others)}) == 4
    assert others[0].digest == tiny.chain(method="imp-2:4").digest

"""Whole channels are removed: which, how many, and what the records say of them."""

import dataclasses
import math

import numpy as np
import pytest
import tiny
import torch
from digits_chains import numbers
from torch import nn

from prunecast import families, spec
from prunecast.errors import PrunecastError
from prunecast.families import find_units
from prunecast.pruning import chain_folder, chain_trainer, open_chain, open_level, train_level
from prunecast.pruning.masks import full_masks
from prunecast.pruning.prune import next_masks
from prunecast.pruning.run import slicing_of
from prunecast.spec import Method
from prunecast.training import stepper

SHAPE = (1, 8, 8)


def method(**fields):
    return Method(name="own", structure="channels", **fields)


def network(seed=0):
    """Three groups: a convolution with batch norm, one without, and hidden units."""
    torch.manual_seed(seed)
    layers = [nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 3), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 3)).requires_grad_(False)


def pruned(own, model, *, masks=None, level=1):
    weights = {name: model.get_parameter(name) for name in families.prunable(model)}
    context = tiny.context(
        own, masks or full_masks(weights), weights, level=level, model=model, image_shape=SHAPE
    )
    context.network = model.state_dict()
    context.loss_gradients = lambda: {name: torch.ones_like(weight) for name, weight in weights.items()}
    masks = next_masks(context)
    units = find_units(model, SHAPE)
    return masks, units, units.kept(masks)


def mean_scores(model, units, power):
    """By unit, what the definition says: the mean over all rows and columns that are its own."""
    found = []
    for unit in range(len(units)):
        parts = []
        for name in families.prunable(model):
            for axis, owners in units.owners.get(name, {}).items():
                own = torch.from_numpy(np.flatnonzero(owners == unit))
                parts.append(model.get_parameter(name).index_select(axis, own).abs().pow(power).flatten())
        found.append(float(torch.cat(parts).mean()))
    return np.array(found)


@pytest.mark.parametrize(("score", "power"), [("magnitude", 1), ("taylor", 1), ("squared-magnitude", 2)])
def test_the_units_with_the_lowest_mean_score_go(score, power):
    model = network()
    _, units, kept = pruned(method(score=score), model)
    assert kept.sum() == 20 - math.ceil(0.2 * 20)
    scores = mean_scores(model, units, power)
    assert set(np.flatnonzero(~kept)) == set(np.argsort(scores)[:4])


def test_the_scale_of_batch_norms_can_be_the_score():
    model = nn.Sequential(
        nn.Conv2d(1, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(180, 3)
    ).requires_grad_(False)
    model[1].weight.copy_(torch.tensor([3.0, -1.0, 0.5, -0.2, 2.0]))
    _, _, kept = pruned(method(score="norm-scale", fraction=0.4), model)
    assert kept.tolist() == [True, True, False, False, True]
    with pytest.raises(
        PrunecastError, match="the channels of '3' have no batch norm; choose score magnitude"
    ):
        pruned(method(score="norm-scale"), network())


def test_a_group_keeps_its_last_unit():
    model = network()
    for parameter in (model[3].weight, model[6].weight):
        parameter.mul_(1e-6)
    masks, kept = None, None
    for level in range(1, 8):
        masks, units, kept = pruned(method(fraction=0.5), model, masks=masks, level=level)
        assert (np.bincount(units.groups[kept], minlength=3) > 0).all()
    assert kept.sum() == 3
    assert np.array_equal(pruned(method(), model, masks=masks)[2], kept)


@pytest.mark.parametrize("measure", ["parameters", "multiply-adds"])
def test_the_fraction_can_be_of_what_a_network_costs(measure):
    model = network()
    _, units, kept = pruned(method(fraction=0.3, fraction_of=measure), model)
    name = measure.replace("-", "_")
    whole, left = (getattr(units.sizes(own), name) for own in (units.everything(), kept))
    assert left <= 0.7 * whole
    best = kept.copy()  # one unit fewer would not have been enough
    best[np.flatnonzero(~kept)[np.argmax(mean_scores(model, units, 1)[~kept])]] = True
    assert getattr(units.sizes(best), name) > 0.7 * whole


def test_every_layer_can_lose_the_same_share():
    _, units, kept = pruned(method(score="layerwise-magnitude", fraction=0.5), network())
    assert np.bincount(units.groups[kept]).tolist() == [3, 2, 5]


def test_random_units_are_drawn_whatever_their_size():
    model, drawn = network(), np.zeros(20)
    weights = {name: model.get_parameter(name) for name in families.prunable(model)}
    units, own = find_units(model, SHAPE), method(score="random", fraction=0.25)
    options = {"model": model, "image_shape": SHAPE}
    for replicate in range(200):
        context = tiny.context(own, full_masks(weights), weights, replicate=replicate, **options)
        drawn += ~units.kept(next_masks(context))
    shares = [drawn[units.groups == group].mean() / 200 for group in range(3)]
    assert all(abs(share - 0.25) < 0.05 for share in shares)


def test_records_count_the_network_without_its_channels(tmp_path):
    own = tiny.chain(method="imp-channels", width=1.0)
    records = tiny.run(tmp_path, own, cap=2, keep_weights=True)
    chain = open_chain(own, tmp_path, tiny.digits())
    units = find_units(chain.untrained, SHAPE)
    left = len(units)
    for record in records:
        masks = chain_folder(tmp_path, own).masks(record.level) if record.level else chain.full
        kept = units.kept(masks)
        assert kept.sum() == left
        small = units.sliced(chain.untrained, kept)
        assert record.density == record.nonzero / record.weights
        assert record.nonzero == sum(small.get_parameter(name).numel() for name in chain.prunable)
        assert record.remaining_parameters == sum(parameter.numel() for parameter in small.parameters())
        assert record.bytes == sum(own.numel() * own.element_size() for own in small.state_dict().values())
        assert record.multiply_adds == families.multiply_adds(small, SHAPE)
        assert record.effective_density == record.density
        left -= math.ceil(0.2 * left)


@pytest.mark.parametrize("recipe", [{}, {"optimizer": "adamw", "gradient_clip": 0.5}])
@pytest.mark.parametrize("family", ["digits_cnn", "channel_families:residual", "own_networks:vit"])
def test_the_smaller_network_trains_as_the_masked_one(tmp_path, family, recipe):
    own = tiny.chain(family=family, method=method(fraction=0.4), width=1.0, recipe=recipe)
    tiny.run(tmp_path, own, cap=1)
    data = doubled_digits()
    chain = open_chain(own, tmp_path, data)
    chain.untrained.double()
    records = chain_folder(tmp_path, own).records()
    level = dataclasses.replace(open_level(chain, records))
    level = dataclasses.replace(
        level, network={n: t.double() if t.is_floating_point() else t for n, t in level.network.items()}
    )
    slicing = slicing_of(chain, level)
    small, whole = chain_trainer(chain, slicing=slicing), chain_trainer(chain)
    assert sum(own.numel() for own in small.model.parameters()) < 0.7 * records[0].parameters
    found = train_level(chain, level, small, stepper(small), slicing)
    expected = train_level(chain, level, whole, stepper(whole))
    assert found.test.error == expected.test.error
    for name, tensor in expected.network.items():
        ours, theirs = (
            slicing.units.slice_tensor(name, one, slicing.kept) for one in (found.network[name], tensor)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
        assert found.network[name].shape == tensor.shape
        if name in level.masks:
            assert not found.network[name][~level.masks[name]].any()


def doubled_digits():
    digits = tiny.digits()
    for source in (digits.train, digits.test):
        source.mean, source.scale = source.mean.double(), source.scale.double()
    return digits


def test_single_weights_are_stored_and_multiplied_as_zeros(tmp_path):
    first, last = tiny.run(tmp_path, cap=1)
    assert (last.bytes, last.multiply_adds) == (first.bytes, first.multiply_adds)
    assert first.remaining_parameters == first.parameters
    assert last.remaining_parameters == last.parameters - last.weights + last.nonzero


@pytest.mark.parametrize(
    "fields",
    [
        {"retraining": "rate-rewinding"},
        {"score": "taylor"},
        {"score": "synflow", "retraining": "from-start", "substeps": 3},
    ],
)
def test_chains_of_channels_run_with_every_retraining(tmp_path, fields):
    records = tiny.run(tmp_path, tiny.chain(method=method(**fields), width=1.0), cap=2)
    densities = [record.density for record in records]
    assert len(records) == 3
    assert densities == sorted(densities, reverse=True)
    assert densities[-1] < densities[0] == 1


def test_a_chain_ends_when_nothing_is_left_to_remove(tmp_path):
    own = tiny.chain(method=method(fraction=0.9), width=1.0)
    records = tiny.run(tmp_path, own, cap=9)
    assert len(records) < 9
    assert records[-1].following.exhausted
    assert all(record.following.connected and record.dead_layers == () for record in records)


def test_a_chain_goes_on_where_it_was_stopped(tmp_path):
    own = tiny.chain(method=method(score="taylor"), width=1.0)
    whole = tiny.run(tmp_path / "whole", own, cap=2)
    assert numbers(tiny.run(tmp_path / "parts", own, cap=1)) == numbers(whole[:2])
    assert numbers(tiny.run(tmp_path / "parts", own, cap=2)) == numbers(whole)


def test_old_digests_stay_and_new_keys_change_them():
    plain = tiny.chain()
    keys = [{}, {"score": "taylor"}, {"fraction_of": "parameters"}, {"fraction_of": "multiply-adds"}]
    others = [dataclasses.replace(plain, method=method(**own)) for own in keys]
    assert len({own.digest for own in (plain, *others)}) == 5
    assert "fraction_of" not in spec.canonical(others[0])
    assert others[0].digest == tiny.chain(method="imp-channels").digest


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"structure": "weights", "fraction_of": "parameters"}, "fraction_of parameters needs structure = 'channels'"),
        ({"structure": "weights", "score": "norm-scale"}, "compares whole channels; give structure = 'channels'"),
        ({"fraction_of": "bytes"}, "fraction_of is 'bytes'"),
    ],
)  # fmt: skip
def test_what_needs_channels_is_refused_without_them(fields, problem):
    with pytest.raises(PrunecastError, match=problem):
        Method(name="own", **{"structure": "channels", **fields})


def test_a_network_that_cannot_be_followed_is_refused_before_anything_is_trained(tmp_path):
    own = tiny.chain(family="channel_families:choosy", method="imp-channels")
    with pytest.raises(
        PrunecastError, match=r"family 'channel_families:choosy', method 'imp-channels': .*Choosy"
    ):
        tiny.run(tmp_path, own)
    assert not chain_folder(tmp_path, own).path.joinpath("spec.json").exists()

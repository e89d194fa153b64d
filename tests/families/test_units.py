"""A network without some units computes what it computes with their weights set to zero."""

import copy

import numpy as np
import own_networks
import pytest
import torch
import unit_nets
from torch import nn

from prunecast import families
from prunecast.catalog import FAMILIES
from prunecast.errors import PrunecastError
from prunecast.families import find_units

BUILT_IN = [
    ("cifar_resnet", 8, 0.25, (3, 8, 8)),
    ("cifar_resnet", 14, 0.25, (3, 8, 8)),
    ("vgg", 11, 1 / 16, (3, 32, 32)),
    ("densenet", 121, 1 / 16, (3, 32, 32)),
    ("imagenet_resnet", 18, 1 / 16, (3, 32, 32)),
    ("tinyimagenet_resnet", 50, 1 / 16, (3, 32, 32)),
    ("digits_cnn", 3, 1.0, (1, 8, 8)),
    ("vit_patch4", 2, 1 / 16, (3, 8, 8)),
    *((f"vit_patch{size}", 1, 1 / 32, (3, 2 * size, 2 * size)) for size in (2, 8, 14, 16, 32)),
]
OWN = ["mobilenet", "mlp", "UNet", "ResNet", "Squeezed", "PartlyKept", "TokensFirst", "OwnBlocks"]


def built_in(family, depth, width, shape):
    generator = torch.Generator().manual_seed(0)
    sizes = {"depth": depth, "width": width, "num_classes": 5}
    return families.build(family, **sizes, generator=generator, image_shape=shape), shape


USERS = {
    "weak_branch": lambda: own_networks.weak_branch(3, 1.0, 10),
    "channels": lambda: own_networks.channels(1, 8, 10, (1, 8, 8)),
    "Hidden": own_networks.Hidden,
    "vit": lambda: own_networks.vit(2, 1.0, 10),
    "Encoder": own_networks.Encoder,
}
"""Networks that other tests use as a user's own, for images of the digits."""
REFUSED = {
    "Fixed": (own_networks.Fixed, "cannot be followed operation by operation"),
    "Branching": (
        lambda: own_networks.Branching(1, 10, (1, 8, 8)),
        "cannot be followed operation by operation",
    ),
}
NETWORKS = [
    *(pytest.param(lambda case=case: built_in(*case), id=f"{case[0]}-{case[1]}") for case in BUILT_IN),
    *(pytest.param(lambda name=name: (getattr(unit_nets, name)(), (3, 8, 8)), id=name) for name in OWN),
    *(pytest.param(lambda make=make: (make(), (1, 8, 8)), id=name) for name, make in USERS.items()),
]


def test_every_built_in_family_is_among_them():
    assert {case[0] for case in BUILT_IN} == set(FAMILIES)


@pytest.mark.parametrize(("make", "problem"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_sliced_is_refused(make, problem):
    with pytest.raises(PrunecastError, match=problem):
        find_units(make(), (1, 8, 8))


def with_values(model):
    """Norms and biases that differ from channel to channel, so that a wrong slice shows."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and tensor.dim() == 1:
                low, high = (0.5, 1.5) if name.endswith(("weight", "var")) else (-0.5, 0.5)
                tensor.uniform_(low, high, generator=generator)
    return model


def some(units, seed, share):
    """Flags that remove about this share of the units, and of no group all."""
    rng = np.random.default_rng(seed)
    kept = rng.random(len(units)) >= share
    for group in range(len(units.names)):
        own = np.flatnonzero(units.groups == group)
        kept[rng.choice(own)] = True
    return kept


def masked(model, units, kept):
    model = copy.deepcopy(model)
    weights = {name: model.get_parameter(name) for name in families.prunable(model)}
    with torch.no_grad():
        for name, mask in units.masks(kept, weights).items():
            weights[name].mul_(mask)
    return model


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-11), (torch.float32, 1e-6)])
def test_sliced_is_masked(network, dtype, close):
    model, shape = network()
    units = find_units(model, shape)
    model = without_dropout(with_values(model)).to(dtype)
    images = torch.randn(3, *shape, dtype=dtype, generator=torch.Generator().manual_seed(2))
    for seed, share in ((0, 0.3), (1, 0.9)):
        kept = some(units, seed, share)
        assert 0 < kept.sum() < len(units)
        small, whole = units.sliced(model, kept), masked(model, units, kept)
        for training in (False, True) if dtype == torch.float64 else (False,):
            found, expected = (own.train(training)(images).detach() for own in (small, whole))
            torch.testing.assert_close(found, expected, rtol=close, atol=close * float(expected.abs().max()))


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    return model


@pytest.mark.parametrize("network", NETWORKS)
def test_sizes_are_those_of_the_sliced_network(network):
    model, shape = network()
    units = find_units(model, shape)
    for kept in (units.everything(), some(units, 3, 0.5)):
        small = units.sliced(model, kept)
        sizes = units.sizes(kept)
        assert sizes.parameters == sum(own.numel() for own in small.parameters())
        assert sizes.bytes == sum(own.numel() * own.element_size() for own in small.state_dict().values())
        assert sizes.multiply_adds == families.multiply_adds(small, shape)
        assert families.full_sizes(small, shape) == sizes
        names = families.prunable(model)
        assert units.weights(names, kept) == sum(small.get_parameter(name).numel() for name in names)
        masks = units.masks(kept, {name: model.get_parameter(name) for name in names})
        assert sum(int(mask.sum()) for mask in masks.values()) == units.weights(names, kept)
        assert np.array_equal(units.kept(masks), kept)


@pytest.mark.parametrize("network", NETWORKS)
def test_a_small_state_goes_back_to_where_it_came_from(network):
    model, shape = network()
    units = find_units(model, shape)
    kept = some(units, 4, 0.5)
    for name, tensor in with_values(model).state_dict().items():
        small = units.slice_tensor(name, tensor, kept)
        assert torch.equal(units.restore_tensor(name, small, tensor, kept), tensor)
        elsewhere = units.restore_tensor(name, torch.zeros_like(small), torch.ones_like(tensor), kept)
        assert (elsewhere == 0).sum() == small.numel()


def groups(model, shape=(3, 8, 8)):
    units = find_units(model, shape)
    return {name: int((units.groups == k).sum()) for k, name in enumerate(units.names)}


def test_channels_that_a_sum_adds_are_one_unit():
    assert groups(unit_nets.ResNet()) == {
        "conv1": 4,
        "layer1.conv1": 4,
        "layer2.0.conv1": 6,
        "layer2.0.conv2": 6,
        "layer2.1.conv1": 6,
    }
    assert sum(groups(unit_nets.mobilenet()).values()) == 6 + 12 + 12 + 8 + 16


def test_heads_and_hidden_units_of_a_transformer_go_and_its_stream_stays():
    model, shape = built_in("vit_patch4", 2, 1 / 16, (3, 8, 8))
    assert groups(model, shape) == {
        "block1_qkv": 3,
        "block1_mlp1": 48,
        "block2_qkv": 3,
        "block2_mlp1": 48,
    }
    assert "patches" in {own.layer for own in find_units(model, shape).kept_whole}


def test_heads_and_hidden_units_of_torchs_own_layers_go():
    assert groups(own_networks.vit(2, 1.0, 10), (1, 8, 8)) == {
        "blocks.0.linear1": 16,
        "blocks.0.self_attn": 2,
        "blocks.1.linear1": 16,
        "blocks.1.self_attn": 2,
    }
    assert groups(own_networks.Encoder(), (1, 8, 8)) == {
        "encoder.layers.0.linear1": 16,
        "encoder.layers.0.self_attn": 2,
        "encoder.layers.1.linear1": 16,
        "encoder.layers.1.self_attn": 2,
        "attention": 2,
    }


def test_heads_that_are_masked_or_whose_weights_are_read_stay():
    assert groups(unit_nets.TokensFirst()) == {"block.linear1": 10, "free": 3, "tied": 6}
    assert groups(unit_nets.OwnBlocks()) == {"fc1": 9}


def test_what_mixes_channels_keeps_those_it_reads():
    model = unit_nets.PartlyKept()
    assert groups(model) == {"free": 6, "hidden": 7}
    reasons = {own.layer: own.reason for own in find_units(model, (3, 8, 8)).kept_whole}
    assert "GroupNorm 'norm'" in reasons["stem"]
    assert "uses their number" in reasons["scaled"]


def test_a_family_that_keeps_a_weight_keeps_its_channels():
    model = unit_nets.ResNet()
    model.prunable_weights = tuple(name for name in families.prunable(model) if name != "fc.weight")
    assert "layer2.0.conv2" not in groups(model)
    assert "layer2.1.conv1" in groups(model)


def tied():
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 6), *(nn.Linear(6, 6) for _ in range(4)), nn.Linear(6, 5)
    )
    model[4].weight = model[2].weight
    return model


def test_tied_and_hooked_layers_keep_their_channels():
    assert groups(tied()) == {"5": 6}
    hooked = unit_nets.ResNet()
    hooked.layer1.conv2.register_forward_hook(lambda module, inputs, output: output.flip(1))
    assert set(groups(hooked)) == {"layer2.0.conv1", "layer2.0.conv2", "layer2.1.conv1"}


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (
            unit_nets.Choosy(),
            r"operation by operation \(avoid conditions.* shapes\), so it is not known which channels",
        ),
        (unit_nets.NamesItsSize(), r"no channels that can be removed \(one: .*'view'.*another shape"),
        (nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), "no channels that can be removed .*the output"),
    ],
)
def test_what_has_no_units_is_refused_by_name(model, problem):
    for _ in range(2):
        with pytest.raises(PrunecastError, match=problem) as refused:
            find_units(model, (3, 8, 8))
        assert type(model).__name__ in str(refused.value)

"""A slot returns what was loaded, and an empty slot neither learns nor changes others."""

import copy
import itertools

import pytest
import torch
from fleet_nets import Concatenated, Grouped, Residual, Stacked
from fleet_training import batches, prune_randomly, randomised, taken_out, train_alone, train_packed
from torch import nn

from prunecast.errors import PrunecastError
from prunecast.fleet import pack

SHAPE = (3, 8, 8)
FAMILIES = [Residual, Stacked, Concatenated, Grouped]


def templates(make, count=3):
    return [make(1.0) for _ in range(count)]


@pytest.mark.parametrize("make", FAMILIES)
def test_a_member_comes_out_as_it_went_in(make):
    widths = (0.5, 1.0, 0.25)
    members = [randomised(make(width), seed) for seed, width in enumerate(widths)]
    packed = pack(members, image_shape=SHAPE, dtype=torch.float64)
    for slot, member in enumerate(members):
        packed.load(slot, member.state_dict())
    for slot, member in enumerate(members):
        state = taken_out(packed, slot)
        assert all(torch.equal(state[name], tensor) for name, tensor in member.state_dict().items())
        assert sorted(state) == sorted(member.state_dict())


@pytest.mark.parametrize("make", FAMILIES)
def test_masks_cover_every_member_once_and_nothing_else(make):
    members = [make(width) for width in (1.0, 0.5, 0.5)]
    packed = pack(members, image_shape=SHAPE)
    for slot, member in enumerate(members):
        packed.load(slot, member.state_dict())
        sizes = {
            name: sum(m.get_parameter(name).numel() for m in members[: slot + 1]) for name in packed.masks
        }
        assert {name: int(mask.sum()) for name, mask in packed.masks.items()} == sizes


@pytest.mark.parametrize("make", FAMILIES)
def test_scores_do_not_depend_on_neighbours(make):
    members = [randomised(make(1.0), seed) for seed in range(3)]
    packed = pack(members, image_shape=SHAPE, dtype=torch.float64)
    packed.module.eval()
    images = torch.randn(3, 4, *SHAPE, dtype=torch.float64)
    for present in itertools.chain.from_iterable(itertools.combinations(range(3), k) for k in range(4)):
        packed.wipe()
        for slot in present:
            packed.load(slot, members[slot].state_dict())
        scores = packed.module(packed.join(images))
        assert scores.shape == (4, 3, 10)
        for slot in range(3):
            alone = members[slot].eval()(images[slot]) if slot in present else torch.zeros(4, 10)
            torch.testing.assert_close(scores[:, slot], alone, rtol=0, atol=1e-10, check_dtype=False)


def test_networks_come_and_go_between_levels():
    """A slot is left, stays empty for a while, and serves another network: all as if alone."""
    members = [randomised(Residual(1.0), seed) for seed in range(4)]
    masks = [prune_randomly(member, seed) for seed, member in enumerate(members)]
    packed = pack(templates(Residual), image_shape=SHAPE, dtype=torch.float64)
    before = packed.module
    for pair in ((0, 1), (2,), (3,)):
        data = {m: batches(m, steps=5, batch=4, size=8) for m in pair}
        for slot, member in enumerate(pair, start=1):
            packed.load(slot, members[member].state_dict(), masks[member])
        rest = batches(99, steps=5, batch=4, size=8)
        columns = [data[pair[slot - 1]] if 1 <= slot <= len(pair) else rest for slot in range(3)]
        steps = [
            (torch.stack([c[t][0] for c in columns]), torch.stack([c[t][1] for c in columns]))
            for t in range(5)
        ]
        train_packed(packed, steps)
        for slot, member in enumerate(pair, start=1):
            alone = train_alone(copy.deepcopy(members[member]), masks[member], data[member])["state"]
            state = taken_out(packed, slot, batches=5)
            for name, tensor in alone.items():
                torch.testing.assert_close(state[name], tensor, rtol=0, atol=1e-10)
        packed.wipe()
    assert packed.module is before
    assert not any(parameter.any() for parameter in packed.module.parameters())


def test_pruned_weights_load_as_zeros():
    member = randomised(Residual(1.0), 0)
    masks = prune_randomly(member, 0)
    packed = pack([member, member], image_shape=SHAPE, dtype=torch.float64)
    packed.load(1, member.state_dict(), masks)
    state = taken_out(packed, 1)
    for name, tensor in member.state_dict().items():
        assert torch.equal(state[name], tensor * masks[name] if name in masks else tensor)


@pytest.mark.parametrize(("smallest", "groups"), [(None, 1), (16, 4), (32, 2), (8, 4), (64, 1)])
def test_convolutions_are_cut_into_groups_no_member_crosses(smallest, groups):
    packed = pack([Residual(1.0)] * 4, image_shape=SHAPE, smallest_group=smallest, multiple=1)
    assert packed.module.get_submodule("conv2").groups == groups
    assert (
        packed.module.get_submodule("conv1").groups == 1
    )  # strided: dense is quicker than a loop over groups


def test_channels_are_padded_to_the_multiple():
    packed = pack([Residual(0.4), Residual(1.0)], image_shape=SHAPE, multiple=16)
    convs = [m for m in packed.module.modules() if isinstance(m, nn.Conv2d)]
    assert all(conv.in_channels % 16 == 0 and conv.out_channels % 16 == 0 for conv in convs)


def test_wrong_state_dicts_are_refused():
    packed = pack(templates(Residual), image_shape=SHAPE)
    state = Residual(1.0).state_dict()
    del state["head.bias"]
    with pytest.raises(PrunecastError, match=r"head\.bias"):
        packed.load(0, state)

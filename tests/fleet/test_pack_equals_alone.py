"""The training of a member does not depend on the other members of its pack."""

import copy

import pytest
import torch
from fleet_nets import Concatenated, Grouped, Residual, Stacked
from fleet_training import batches, prune_randomly, randomised, taken_out, train_alone, train_packed

from prunecast.fleet import pack

STEPS, BATCH, SIZE = 50, 6, 8
WIDTHS = (1.0, 0.5, 1.0, 0.25)


def members_of(make, widths=WIDTHS):
    return [randomised(make(width), seed) for seed, width in enumerate(widths)]


def loaded(members, masks, **options):
    packed = pack(members, image_shape=(3, SIZE, SIZE), dtype=torch.float64, **options)
    for slot, (member, mask) in enumerate(zip(members, masks, strict=True)):
        packed.load(slot, member.state_dict(), mask)
    return packed


def side_by_side(own):
    return [
        (torch.stack([x for x, _ in step]), torch.stack([y for _, y in step]))
        for step in zip(*own, strict=True)
    ]


def largest_difference(one, other):
    assert one.keys() == other.keys()
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


@pytest.mark.parametrize("options", [{}, {"multiple": 1}, {"smallest_group": 4}], ids=str)
@pytest.mark.parametrize("make", [Residual, Stacked, Concatenated, Grouped])
def test_fifty_steps_agree(make, options):
    members = members_of(make)
    masks = [prune_randomly(member, seed) for seed, member in enumerate(members)]
    data = [batches(seed, steps=STEPS, batch=BATCH, size=SIZE) for seed in range(len(members))]
    packed = loaded(members, masks, **options)
    momenta = train_packed(packed, side_by_side(data))
    for slot, member in enumerate(members):
        alone = train_alone(copy.deepcopy(member), masks[slot], data[slot])
        assert largest_difference(packed.layout.read(momenta, slot), alone["momenta"]) < 1e-9
        assert largest_difference(taken_out(packed, slot, batches=STEPS), alone["state"]) < 1e-9

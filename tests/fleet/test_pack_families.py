"""The built-in families, packed in mixed widths, train as if alone."""

import copy
from pathlib import Path

import pytest
import torch
from fleet_nets import Concatenated
from fleet_training import batches, prune_randomly, taken_out, train_alone, train_packed

from prunecast.families import build
from prunecast.fleet import pack

HERE = Path(__file__).parent
STEPS = 50
BATCH = 16
"""Not fewer: batch norm over a handful of values multiplies rounding errors with every step."""


def users_family(depth: int, width: float, num_classes: int) -> torch.nn.Module:
    return Concatenated(width, num_classes)


CASES = [
    ("cifar_resnet", 20, (0.25, 0.125, 0.5, 0.0625), 8),
    ("vgg", 16, (0.03125, 0.0625), 32),
    pytest.param("densenet", 121, (0.125, 0.0625), 16, marks=pytest.mark.slow),
    ("digits_cnn", 5, (0.5, 0.25), 8),
    ("test_pack_families:users_family", 3, (1.0, 0.5, 0.25), 8),
]


def member(family: str, depth: int, width: float, size: int, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    shape = None if ":" in family else (3, size, size)
    options = {
        "depth": depth,
        "width": width,
        "num_classes": 10,
        "generator": generator,
        "image_shape": shape,
    }
    return build(family, **options).double()


def side_by_side(own):
    return [
        (torch.stack([x for x, _ in step]), torch.stack([y for _, y in step]))
        for step in zip(*own, strict=True)
    ]


@pytest.mark.parametrize(("family", "depth", "widths", "size"), CASES)
def test_fifty_steps_of_a_mixed_pack_equal_training_alone(family, depth, widths, size, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    members = [member(family, depth, width, size, seed) for seed, width in enumerate(widths)]
    masks = [prune_randomly(model, seed) for seed, model in enumerate(members)]
    data = [batches(seed, steps=STEPS, batch=BATCH, size=size) for seed in range(len(members))]
    packed = pack(members, image_shape=(3, size, size), dtype=torch.float64, multiple=8)
    for slot, (model, mask) in enumerate(zip(members, masks, strict=True)):
        packed.load(slot, model.state_dict(), mask)
    momenta = train_packed(packed, side_by_side(data))
    for slot, model in enumerate(members):
        alone = train_alone(copy.deepcopy(model), masks[slot], data[slot])
        _assert_equal(packed.layout.read(momenta, slot), alone["momenta"])
        _assert_equal(taken_out(packed, slot, batches=STEPS), alone["state"])


def _assert_equal(one, other) -> None:
    assert one.keys() == other.keys()
    for name, tensor in other.items():
        torch.testing.assert_close(one[name], tensor, rtol=0, atol=1e-9, check_dtype=False, msg=name)

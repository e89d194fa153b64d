import math
import random
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from prunecast.errors import PrunecastError
from prunecast.families import build, check_own_weights, find, prunable


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    yield
    sys.modules.pop("own_family", None)


def own(name, seed=0, depth=3, **how):
    generator = torch.Generator().manual_seed(seed)
    return build(f"own_family:{name}", depth=depth, width=0.5, num_classes=10, generator=generator, **how)


def test_a_users_family_is_built_and_initialised_like_the_others():
    model = own("plain")
    assert prunable(model) == ("0.weight", "2.weight", "6.weight")
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert (model[0].bias == 0).all()
    assert model[0].weight.abs().max() > 1 / math.sqrt(9)  # torch's own bound, below He's √(6/9)
    assert model[0].weight.abs().max() <= math.sqrt(6 / 9)


def test_initialisation_of_own_families_follows_the_generator():
    for name in ("plain", "own"):
        torch.manual_seed(0)
        first = own(name, seed=5).state_dict()
        torch.manual_seed(1)
        again, other = own(name, seed=5).state_dict(), own(name, seed=6).state_dict()
        assert all(torch.equal(first[key], again[key]) for key in first)
        assert any(not torch.equal(first[key], other[key]) for key in first)


def test_building_leaves_the_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    own("own")
    assert torch.equal(torch.rand(3), expected)


def test_own_init_is_kept():
    model = own("own")
    assert prunable(model) == ("weight",)
    assert (model.bias == 7).all()


def test_own_weights_follow_the_generator_whatever_draws_them():
    states = random.getstate(), str(np.random.get_state())  # noqa: NPY002
    first, again, other = (own("of_numpy", seed=seed, own_weights=True) for seed in (5, 5, 6))
    assert (random.getstate(), str(np.random.get_state())) == states  # noqa: NPY002
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert not any(map(torch.equal, first.parameters(), other.parameters()))
    assert not own("of_numpy", seed=5).bias.any(), "He uniform sets biases to 0"


def test_own_weights_are_those_that_the_function_makes_without_prunecast():
    """It is called under the seed that the generator gives."""
    seed = int(torch.randint(2**62, (), generator=torch.Generator().manual_seed(5)))
    kept = own("plain", seed=5, own_weights=True)
    torch.manual_seed(seed)
    expected = find("own_family:plain")(3, 0.5, 10).float()
    assert all(map(torch.equal, kept.parameters(), expected.parameters()))


def test_weights_that_cannot_be_made_again_are_refused():
    sizes = {"depth": 3, "width": 1, "num_classes": 10, "image_shape": (1, 8, 8)}
    check_own_weights("own_family:of_numpy", **sizes)
    with pytest.raises(PrunecastError, match="'own_family:of_the_moment' makes another bias every time"):
        check_own_weights("own_family:of_the_moment", **sizes)
    for _ in range(2):  # the layer is there at the first call or at the second
        with pytest.raises(
            PrunecastError, match=r"'own_family:of_a_coin' makes another spare\.\w+ every time"
        ):
            check_own_weights("own_family:of_a_coin", **sizes)
        find("own_family:of_a_coin")(1, 1, 10)


def test_tied_weights_are_pruned_once_and_a_model_may_choose():
    assert prunable(own("tied")) == ("one.weight", "head.weight")
    assert prunable(own("chosen")) == ("head.weight",)


def test_transposed_and_grouped_convolutions_use_their_own_fan_in():
    from prunecast.families import initialise

    generator = torch.Generator().manual_seed(0)
    cases = (
        (nn.Conv2d(64, 64, 3, groups=64), 9),
        (nn.ConvTranspose2d(8, 256, 3), 72),
        (nn.Linear(50, 999), 50),
    )
    for module, fan_in in cases:
        initialise(module, generator)
        assert module.weight.abs().max().item() == pytest.approx(math.sqrt(6 / fan_in), rel=0.02)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        ("own_family:missing", "own_family has no attribute 'missing'"),
        ("own_family:plane", r"has no attribute 'plane'\. Did you mean plain\?"),
        ("no_such_module:f", "cannot import family 'no_such_module:f'.*PYTHONPATH"),
        (":f", "unknown family ':f'; the built-in families are"),
        ("own_family:weightless", "no convolution or linear weight"),
        ("own_family:no_module", r"returned Tensor, not a torch\.nn\.Module"),
        (
            "own_family:wrong_signature",
            "needs the argument 'size', which prunecast does not know; give it a default",
        ),
        (
            "own_family:broken",
            r"cannot be built at depth 3 and width 1: ZeroDivisionError: .*\(own_family\.py, line \d+\)",
        ),
        ("own_family:misnamed", r"prunable_weights names 'tail\.weight'"),
        ("resnet", "unknown family 'resnet'"),
    ],
)
def test_mistakes_are_one_sentence(family, message):
    generator = torch.Generator().manual_seed(0)
    with pytest.raises(PrunecastError, match=message):
        build(family, depth=3, width=1, num_classes=10, generator=generator)


def test_lazy_layers_get_their_sizes_and_weights_like_others():
    one, same, other = (
        build(
            "own_family:lazy",
            depth=1,
            width=1,
            num_classes=10,
            generator=torch.Generator().manual_seed(seed),
            image_shape=(3, 8, 8),
        )
        for seed in (0, 0, 1)
    )
    assert prunable(one) == ("0.weight", "4.weight")
    assert one[0].weight.shape == (8, 3, 3, 3)
    assert one[0].weight.abs().max() <= math.sqrt(6 / 27)
    assert one.training
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not torch.equal(one[4].weight, other[4].weight)


def test_lazy_layers_that_do_not_fit_name_the_module():
    with pytest.raises(PrunecastError, match=r"module '2' \(Linear\) takes 999 features, but gets 96"):
        build(
            "own_family:lazy_for_tokens",
            depth=1,
            width=1,
            num_classes=10,
            generator=torch.Generator(),
            image_shape=(3, 8, 8),
        )

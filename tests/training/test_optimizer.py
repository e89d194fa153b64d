import pytest
import torch
from torch import nn

from prunecast import spec
from prunecast.errors import PrunecastError
from prunecast.training import find_optimizer, initial_state, optimizer_step, update_rule

SHAPES = [(4, 3, 3, 3), (4,), (5, 4), (5,)]
ADAM = {"optimizer": "adam", "weight_decay": 1e-2}
CHANGES = {
    "sgd": {},
    "sgd without decay": {"weight_decay": 0},
    "sgd without momentum": {"momentum": 0},
    "sgd that decays weights alone": {"weight_decay": 1e-2, "weight_decay_on": "weights"},
    "sgd, clipped": {"gradient_clip": 5.0},
    "adam": ADAM,
    "adamw": {**ADAM, "optimizer": "adamw"},
    "adamw that decays weights alone, clipped": {
        **ADAM,
        "optimizer": "adamw",
        "weight_decay_on": "weights",
        "gradient_clip": 5.0,
    },
}
RECIPES = {name: spec.recipe("cifar10").changed(changes) for name, changes in CHANGES.items()}


def rule_of(recipe, parameters):
    return update_rule(recipe, nn.ParameterList(parameters))


def reference(recipe, parameters, rate):
    decay, betas = recipe.weight_decay, (recipe.momentum, recipe.second_momentum)
    groups = [
        {
            "params": [own],
            "weight_decay": decay if recipe.weight_decay_on == "all" or own.dim() > 1 else 0,
        }
        for own in parameters
    ]
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=recipe.momentum)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[recipe.optimizer]
    return kind(groups, lr=rate, betas=betas)


@pytest.mark.parametrize("name", RECIPES)
def test_unmasked_steps_are_those_of_torch(name):
    recipe, generator = RECIPES[name], torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    theirs = [parameter.clone().requires_grad_() for parameter in ours]
    optimizer_state, torchs = initial_state(recipe, ours), reference(recipe, theirs, 0.05)
    lengths = set()
    for size in (0.1, 1.0) * 15:
        gradients = [size * torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        if recipe.gradient_clip:
            lengths.add(bool(torch.nn.utils.clip_grad_norm_(theirs, recipe.gradient_clip) > 5))
        torchs.step()
        rate = torch.tensor(0.05, dtype=torch.float64)
        optimizer_step(rule_of(recipe, ours), ours, gradients, optimizer_state, [None] * len(ours), rate)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=1e-11, atol=1e-12)
    assert lengths == ({False, True} if recipe.gradient_clip else set())


@pytest.mark.parametrize("name", RECIPES)
def test_pruned_weights_and_their_slots_stay_exactly_zero_at_every_step(name):
    recipe, generator = RECIPES[name], torch.Generator().manual_seed(1)
    masks = [(torch.rand(shape, generator=generator) < 0.4).float() for shape in SHAPES]
    parameters = [torch.randn(mask.shape, generator=generator) * mask for mask in masks]
    optimizer_state, rule = initial_state(recipe, parameters), rule_of(recipe, parameters)
    for step in range(50):
        gradients = [torch.randn(shape, generator=generator) * 10 for shape in SHAPES]
        optimizer_step(
            rule, parameters, gradients, optimizer_state, masks, torch.tensor(0.1 if step < 25 else 0.01)
        )
        for position, mask in enumerate(masks):
            for values in (parameters[position], optimizer_state["momentum"][position]):
                assert torch.count_nonzero(values[mask == 0]) == 0
                assert torch.count_nonzero(values[mask == 1]) == mask.sum()


@pytest.mark.parametrize("name", RECIPES)
def test_gradients_given_are_left_alone(name):
    gradients, recipe, parameters = [torch.ones(3, 1)], RECIPES[name], [torch.zeros(3, 1)]
    optimizer_step(
        rule_of(recipe, parameters),
        parameters,
        gradients,
        initial_state(recipe, parameters),
        [torch.zeros(3, 1)],
        torch.tensor(1.0),
    )
    assert gradients[0].tolist() == [[1], [1], [1]]
    assert parameters[0].tolist() == [[0], [0], [0]]


def test_a_pruned_weight_does_not_count_in_the_norm_of_the_gradient():
    recipe = spec.recipe("cifar10").changed({"gradient_clip": 1.0, "weight_decay": 0})
    parameters, state = [torch.zeros(2)], {"momentum": [torch.zeros(2)]}
    masks, gradients = [torch.tensor([1.0, 0.0])], [torch.tensor([0.5, 100.0])]
    optimizer_step(rule_of(recipe, parameters), parameters, gradients, state, masks, torch.tensor(1.0))
    assert parameters[0].tolist() == [-0.5, 0.0]


def test_norms_and_biases_do_not_decay_if_only_weights_do():
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.LayerNorm([4, 5, 5]), nn.Linear(5, 2)]
    recipe = RECIPES["sgd that decays weights alone"]
    names = [name for name, _ in nn.Sequential(*layers).named_parameters()]
    rule = update_rule(recipe, nn.Sequential(*layers))
    decayed = [name for name, flag in zip(names, rule.decayed, strict=True) if flag]
    assert decayed == ["0.weight", "3.weight"]
    assert all(update_rule(RECIPES["sgd"], nn.Sequential(*layers)).decayed)


def test_something_else_than_an_optimizer_is_refused():
    recipe = spec.recipe("cifar10").changed({"optimizer": "torch.optim:SGD"})
    with pytest.raises(PrunecastError, match=r"optimizer 'torch.optim:SGD' is type; it must be a prunecast"):
        find_optimizer(recipe)

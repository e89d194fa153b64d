import pytest
import torch

from prunecast import spec
from prunecast.training import initial_state, optimizer_step

SHAPES = [(4, 3, 3, 3), (4,), (5, 4), (5,)]
RECIPES = {
    "sgd": spec.recipe("cifar10"),
    "sgd without decay": spec.recipe("cifar10").changed({"weight_decay": 0}),
    "sgd without momentum": spec.recipe("cifar10").changed({"momentum": 0}),
    "adam": spec.recipe("cifar10").changed({"optimizer": "adam", "weight_decay": 1e-2}),
}


def reference(recipe, parameters, rate):
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay
        )
    betas = (recipe.momentum, recipe.second_momentum)
    return torch.optim.Adam(parameters, lr=rate, betas=betas, weight_decay=recipe.weight_decay)


@pytest.mark.parametrize("name", RECIPES)
def test_unmasked_steps_are_those_of_torch(name):
    recipe, generator = RECIPES[name], torch.Generator().manual_seed(0)
    ours = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
    theirs = [parameter.clone().requires_grad_() for parameter in ours]
    optimizer_state, torchs = initial_state(recipe, ours), reference(recipe, theirs, 0.05)
    for _ in range(30):
        gradients = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in SHAPES]
        for parameter, gradient in zip(theirs, gradients, strict=True):
            parameter.grad = gradient.clone()
        torchs.step()
        rate = torch.tensor(0.05, dtype=torch.float64)
        optimizer_step(recipe, ours, gradients, optimizer_state, [None] * len(ours), rate)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", RECIPES)
def test_pruned_weights_and_their_slots_stay_exactly_zero_at_every_step(name):
    recipe, generator = RECIPES[name], torch.Generator().manual_seed(1)
    masks = [(torch.rand(shape, generator=generator) < 0.4).float() for shape in SHAPES]
    parameters = [torch.randn(mask.shape, generator=generator) * mask for mask in masks]
    optimizer_state = initial_state(recipe, parameters)
    for step in range(50):
        gradients = [torch.randn(shape, generator=generator) * 10 for shape in SHAPES]
        optimizer_step(
            recipe, parameters, gradients, optimizer_state, masks, torch.tensor(0.1 if step < 25 else 0.01)
        )
        for position, mask in enumerate(masks):
            for values in (parameters[position], optimizer_state["momentum"][position]):
                assert torch.count_nonzero(values[mask == 0]) == 0
                assert torch.count_nonzero(values[mask == 1]) == mask.sum()


def test_gradients_given_are_left_alone():
    gradients = [torch.ones(3)]
    recipe, parameters = RECIPES["sgd"], [torch.ones(3)]
    optimizer_step(
        recipe, parameters, gradients, initial_state(recipe, parameters), [torch.zeros(3)], torch.tensor(1.0)
    )
    assert gradients[0].tolist() == [1, 1, 1]
    assert parameters[0].tolist() == [1, 1, 1]

"""Optimizer steps as functions on lists of tensors that update parameters and optimizer state in place.

A pruned weight is exactly zero and stays zero: its gradient is multiplied by its mask first, so its momentum stays
zero, and the decay of zero is zero. `rate` is a tensor on the parameters' device, so that a captured CUDA graph can
be replayed with another learning rate.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from prunecast.spec import Recipe

Tensors = list[Tensor]
Masks = Sequence[Tensor | None]
OptimizerState = dict[str, list[Tensor]]
"""The tensors of each kind, such as `momentum`: one per parameter, or a single `count`."""


def initial_state(recipe: Recipe, parameters: Tensors) -> OptimizerState:
    """Return the optimizer state before the first step: all zero."""
    state = {"momentum": [torch.zeros_like(parameter) for parameter in parameters]}
    if recipe.optimizer == "adam":
        state["second_momentum"] = [torch.zeros_like(parameter) for parameter in parameters]
        state["count"] = [torch.zeros((), dtype=parameters[0].dtype, device=parameters[0].device)]
    return state


def optimizer_step(
    recipe: Recipe,
    parameters: Tensors,
    gradients: Tensors,
    state: OptimizerState,
    masks: Masks,
    rate: Tensor,
) -> None:
    """Do one step of the recipe's optimizer."""
    if recipe.optimizer == "sgd":
        sgd_step(
            parameters,
            gradients,
            state["momentum"],
            masks,
            rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
        )
    else:
        adam_step(recipe, parameters, gradients, state, masks, rate)


def laid_out_like(gradients: Sequence[Tensor], parameters: Tensors) -> Tensors:
    """Return gradients in the memory layout of their parameters, so that one fused kernel can update them all."""
    return [
        gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
        for gradient, parameter in zip(gradients, parameters, strict=True)
    ]


def mask_gradients(gradients: Tensors, masks: Masks) -> None:
    """Multiply gradients by their masks in place: g ← m · g."""
    pairs = [(gradient, mask) for gradient, mask in zip(gradients, masks, strict=True) if mask is not None]
    if pairs:
        torch._foreach_mul_([gradient for gradient, _ in pairs], [mask for _, mask in pairs])


def sgd_step(
    parameters: Tensors,
    gradients: Tensors,
    momenta: Tensors,
    masks: Masks,
    rate: Tensor,
    *,
    momentum: float,
    weight_decay: float,
) -> None:
    """Do v ← μ v + m·(g + λ w) and w ← w − η v: mask m, decay λ, momentum μ, learning rate η."""
    gradients = list(torch._foreach_add(gradients, parameters, alpha=weight_decay))
    mask_gradients(gradients, masks)
    torch._foreach_mul_(momenta, momentum)
    torch._foreach_add_(momenta, gradients)
    torch._foreach_sub_(parameters, torch._foreach_mul(momenta, rate))


def adam_step(
    recipe: Recipe,
    parameters: Tensors,
    gradients: Tensors,
    state: OptimizerState,
    masks: Masks,
    rate: Tensor,
) -> None:
    """Adam with the decay in the gradient: w ← w − η û / (√v̂ + 1e-8), û and v̂ the unbiased moments."""
    first, second = recipe.momentum, recipe.second_momentum
    gradients = list(torch._foreach_add(gradients, parameters, alpha=recipe.weight_decay))
    mask_gradients(gradients, masks)
    torch._foreach_mul_(state["momentum"], first)
    torch._foreach_add_(state["momentum"], gradients, alpha=1 - first)
    torch._foreach_mul_(state["second_momentum"], second)
    torch._foreach_addcmul_(state["second_momentum"], gradients, gradients, value=1 - second)
    count = state["count"][0].add_(1)
    moments = torch._foreach_mul(state["momentum"], rate / (1 - first**count))
    roots = torch._foreach_sqrt(torch._foreach_div(state["second_momentum"], 1 - second**count))
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_sub_(parameters, torch._foreach_div(moments, roots))

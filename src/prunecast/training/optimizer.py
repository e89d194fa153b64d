"""Optimizer steps as functions on lists of tensors that update parameters and optimizer state in place.

A pruned weight is exactly zero and stays zero: its gradient is multiplied by its mask first, so its momentum stays
zero, and the decay of zero is zero. `rate` is a tensor on the parameters' device, so that a captured CUDA graph can
be replayed with another learning rate.

An optimizer of your own is an `Optimizer`. A recipe names it as `optimizer = "package.module:NAME"`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from prunecast.plugins import Registry
from prunecast.spec import RECIPE_NAMES, Recipe

Tensors = list[Tensor]
Masks = Sequence[Tensor | None]
OptimizerState = dict[str, list[Tensor]]
"""The tensors of each kind, such as `momentum`: one per parameter, or a single `count`."""
COUNT = "count"
"""The kind of state that is a single number: the steps done, the present one included."""
SMALL = 1e-6
"""Added to a gradient's norm before the division, as torch does."""
NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)


@dataclass(frozen=True, kw_only=True)
class Optimizer:
    """A rule for changing parameters by their gradients."""

    name: str
    step: Callable[[Recipe, Tensors, Tensors, OptimizerState, Tensor], None]
    """Changes parameters and state in place, given recipe, parameters, gradients, state and learning rate.

    Gradients arrive clipped and masked, with weight decay applied. Parameters and state must stay zero where the
    gradient has always been zero.
    """
    state: tuple[str, ...] = ()
    """The kinds of tensors that it keeps for every parameter, zero at first; `count` is the number of the step."""
    decoupled_decay: bool = False
    """Whether weight decay shrinks the parameters, as in AdamW, instead of being added to the gradients."""
    elementwise: bool = False
    """Whether each element is changed by its own gradient alone; a GPU can then train many networks at once."""


OPTIMIZERS = Registry(
    "optimizer",
    RECIPE_NAMES["optimizer"],
    "a prunecast.training.Optimizer",
    lambda _, found: found if isinstance(found, Optimizer) else None,
)


def register_optimizer(optimizer: Optimizer) -> Optimizer:
    """Let recipes name an optimizer by its `name`; returns it, so that a module can keep it."""
    return OPTIMIZERS.add(optimizer.name, optimizer)


def find_optimizer(recipe: Recipe) -> Optimizer:
    """The optimizer that a recipe names."""
    return OPTIMIZERS.get(recipe.optimizer)


@dataclass(frozen=True, kw_only=True)
class Owners:
    """Which network of a pack owns each row (first index) of the parameters, with all parameters concatenated."""

    rows: Tensor
    """(networks, most rows of a network): the rows of each network, padded with the total number of rows."""
    network: Tensor
    """By row, the network that owns it; any network if none does."""


@dataclass(frozen=True, kw_only=True)
class UpdateRule:
    """What stays the same in every optimizer step."""

    recipe: Recipe
    optimizer: Optimizer
    decayed: tuple[bool, ...]
    """For every parameter, whether weight decay applies to it."""
    owners: Owners | None = None
    """If several networks share the parameters, which rows belong to which: gradients are clipped per network."""


def update_rule(
    recipe: Recipe, model: nn.Module, owners: Owners | None = None, *, stacked: bool = False
) -> UpdateRule:
    """The rule of a recipe for one network, or for several whose parameters are `stacked` along a first axis."""
    of_norms = {
        id(parameter)
        for layer in model.modules()
        if isinstance(layer, NORMS)
        for parameter in layer.parameters()
    }
    decayed = tuple(
        recipe.weight_decay_on == "all" or (parameter.dim() > 1 + stacked and id(parameter) not in of_norms)
        for parameter in model.parameters()
    )
    optimizer = find_optimizer(recipe)
    return UpdateRule(recipe=recipe, optimizer=optimizer, decayed=decayed, owners=owners)


def initial_state(recipe: Recipe, parameters: Tensors) -> OptimizerState:
    """Return the optimizer state before the first step: all zero."""
    first = parameters[0]
    return {
        kind: [torch.zeros((), dtype=first.dtype, device=first.device)]
        if kind == COUNT
        else [torch.zeros_like(parameter) for parameter in parameters]
        for kind in find_optimizer(recipe).state
    }


def state_tensors(state: OptimizerState) -> Tensors:
    """All tensors of an optimizer's state, always in the same order."""
    return [tensor for tensors in state.values() for tensor in tensors]


def optimizer_step(
    rule: UpdateRule,
    parameters: Tensors,
    gradients: Tensors,
    state: OptimizerState,
    masks: Masks,
    rate: Tensor,
    copies: Sequence[Tensor] = (),
) -> None:
    """Do one step: clip and mask the gradients, decay, and let the optimizer change the parameters.

    Decay λ adds λ w to the gradient g, or multiplies the parameter w by 1 − η λ if it is decoupled. If the forward
    pass reads `copies` of the parameters, some in a lower precision, the gradients are those of the copies.
    """
    recipe, optimizer = rule.recipe, rule.optimizer
    if copies:
        gradients = [own.to(parameter.dtype) for own, parameter in zip(gradients, parameters, strict=True)]
    if recipe.gradient_clip is not None:
        gradients = clipped(masked(gradients, masks), recipe.gradient_clip, rule.owners)
    elif optimizer.decoupled_decay:
        gradients = masked(gradients, masks)
    if optimizer.decoupled_decay:
        decaying = chosen(parameters, rule.decayed)
        if decaying:
            torch._foreach_mul_(decaying, 1 - rate * recipe.weight_decay)
    else:
        gradients = with_decay(rule, gradients, parameters)
        mask_gradients(gradients, masks)
    if COUNT in state:
        torch._foreach_add_(state[COUNT], 1)  # torch.compile loses an add_ without dimensions
    optimizer.step(recipe, parameters, gradients, state, rate)
    for own, parameter in zip(copies, parameters, strict=False):
        if own is not parameter:
            own.copy_(parameter)


def with_decay(rule: UpdateRule, gradients: Tensors, parameters: Tensors) -> Tensors:
    """Return copies of the gradients, with λ w added for the parameters that decay."""
    decay = rule.recipe.weight_decay
    if all(rule.decayed):
        return list(torch._foreach_add(gradients, parameters, alpha=decay))
    copies = list(torch._foreach_mul(gradients, 1.0))
    decaying = chosen(copies, rule.decayed)
    if decaying:
        torch._foreach_add_(decaying, chosen(parameters, rule.decayed), alpha=decay)
    return copies


def chosen(tensors: Sequence[Tensor], flags: Sequence[bool]) -> Tensors:
    """The tensors whose flag is set."""
    return [tensor for tensor, flag in zip(tensors, flags, strict=True) if flag]


def laid_out_like(gradients: Sequence[Tensor], parameters: Tensors) -> Tensors:
    """Return gradients in the memory layout of their parameters, so that one fused kernel can update them all."""
    return [
        gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
        for gradient, parameter in zip(gradients, parameters, strict=True)
    ]


def masked(gradients: Tensors, masks: Masks) -> Tensors:
    """Return m · g for gradients g with a mask m, and the others as they are."""
    places = [place for place, mask in enumerate(masks) if mask is not None]
    if not places:
        return gradients
    products = torch._foreach_mul(
        [gradients[place] for place in places], [mask for mask in masks if mask is not None]
    )
    found = dict(zip(places, products, strict=True))
    return [found.get(place, gradient) for place, gradient in enumerate(gradients)]


def mask_gradients(gradients: Tensors, masks: Masks) -> None:
    """Multiply gradients by their masks in place: g ← m · g."""
    pairs = [(gradient, mask) for gradient, mask in zip(gradients, masks, strict=True) if mask is not None]
    if pairs:
        torch._foreach_mul_([gradient for gradient, _ in pairs], [mask for _, mask in pairs])


def clipped(gradients: Tensors, largest: float, owners: Owners | None) -> Tensors:
    """Return g · min(1, largest / (‖g‖ + 1e-6)), with the norm over all parameters of a network."""
    if owners is None:
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        return list(torch._foreach_mul(gradients, (largest / (norm + SMALL)).clamp(max=1.0)))
    squares = [_sums_of_rows(gradient.square()) for gradient in gradients]
    joined = torch.cat([*squares, squares[0].new_zeros(1)])
    norms = joined[owners.rows].sum(1).sqrt()
    factors = (largest / (norms + SMALL)).clamp(max=1.0)[owners.network]
    of_each = torch.split(factors, [len(rows) for rows in squares])
    return [
        gradient * factor.view(-1, *[1] * (gradient.dim() - 1))
        for gradient, factor in zip(gradients, of_each, strict=True)
    ]


def _sums_of_rows(values: Tensor) -> Tensor:
    return values.sum(tuple(range(1, values.dim()))) if values.dim() > 1 else values


def sgd_step(
    recipe: Recipe, parameters: Tensors, gradients: Tensors, state: OptimizerState, rate: Tensor
) -> None:
    """Do v ← μ v + g and w ← w − η v: momentum μ, learning rate η."""
    torch._foreach_mul_(state["momentum"], recipe.momentum)
    torch._foreach_add_(state["momentum"], gradients)
    torch._foreach_sub_(parameters, torch._foreach_mul(state["momentum"], rate))


def adam_step(
    recipe: Recipe, parameters: Tensors, gradients: Tensors, state: OptimizerState, rate: Tensor
) -> None:
    """Do w ← w − η û / (√v̂ + 1e-8), with û and v̂ the unbiased moments of the gradients."""
    first, second, count = recipe.momentum, recipe.second_momentum, state[COUNT][0]
    torch._foreach_mul_(state["momentum"], first)
    torch._foreach_add_(state["momentum"], gradients, alpha=1 - first)
    torch._foreach_mul_(state["second_momentum"], second)
    torch._foreach_addcmul_(state["second_momentum"], gradients, gradients, value=1 - second)
    moments = torch._foreach_mul(state["momentum"], rate / (1 - first**count))
    roots = torch._foreach_sqrt(torch._foreach_div(state["second_momentum"], 1 - second**count))
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_sub_(parameters, torch._foreach_div(moments, roots))


_ADAM = ("momentum", "second_momentum", COUNT)
for _optimizer in (
    Optimizer(name="sgd", step=sgd_step, state=("momentum",), elementwise=True),
    Optimizer(name="adam", step=adam_step, state=_ADAM, elementwise=True),
    Optimizer(name="adamw", step=adam_step, state=_ADAM, decoupled_decay=True, elementwise=True),
):
    register_optimizer(_optimizer)

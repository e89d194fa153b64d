"""Criteria: every weight gets a score, and the weights with the lowest scores are pruned first.

A criterion of your own is a function of a `PruningContext` that returns one tensor of scores per layer. A plan names it
in its method as `score = "package.module:function"`.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from prunecast.errors import PrunecastError
from prunecast.families import Units
from prunecast.plugins import Registry
from prunecast.pruning.masks import Masks, Scores
from prunecast.spec import METHOD_NAMES, MODULE_CALLS, Method, rng


@dataclass(kw_only=True)
class PruningContext:
    """The inputs of a criterion. All tensors are on the CPU; treat them as read-only."""

    method: Method
    level: int
    """The level whose masks are being chosen; 1 is the first pruned one."""
    replicate: int
    masks: Masks
    """By layer in module order, true where a weight has not been pruned yet."""
    weights: Mapping[str, Tensor]
    """The prunable weights after training; if the method prunes before training, the initial ones."""
    initial_weights: Mapping[str, Tensor]
    """The prunable weights of the untrained network."""
    untrained: nn.Module
    """The untrained network; use `model` to change it or to call it."""
    image_shape: tuple[int, ...]
    network: Mapping[str, Tensor] = field(default_factory=dict)
    """All parameters and buffers that `weights` are a part of."""
    loss_gradients: Callable[[], Mapping[str, Tensor]] | None = None
    """Computes the gradient of the mean loss over some training examples, by parameter; for criteria that say
    `needs_images`."""

    @functools.cached_property
    def model(self) -> nn.Module:
        """A copy of the untrained network that belongs to the criterion; the substeps of a level share it."""
        return copy.deepcopy(self.untrained)

    def rng(self) -> np.random.Generator:
        """Random numbers that are the same whenever this replicate's chain is pruned to this level."""
        return rng(self.replicate, "score", self.level)


@dataclass(frozen=True, kw_only=True)
class Criterion:
    """A way of scoring weights."""

    name: str
    score: Callable[[PruningContext], Scores]
    """One tensor per layer, shaped like its mask. Scores of weights that are already pruned are ignored."""
    per_layer: bool = False
    """Whether weights are compared within their layer only, so that every layer loses the same share."""
    thread_safe: bool = False
    """Whether `score` may run while other threads call or trace modules; if not, it runs under MODULE_CALLS."""
    needs_images: bool = False
    """Whether it reads `loss_gradients`; its chains then train one at a time."""
    of_units: Callable[[PruningContext, Units], NDArray[Any]] | None = None
    """Scores whole channels, in the order of the units; by default they have the mean score of their weights."""

    def scores(self, context: PruningContext) -> dict[str, Tensor]:
        """The scores of all layers, checked."""
        with contextlib.nullcontext() if self.thread_safe else MODULE_CALLS:
            found = self.score(context)
        return {name: self._checked(found, name, mask) for name, mask in context.masks.items()}

    def _checked(self, found: Scores, name: str, mask: Tensor) -> Tensor:
        place = f"Criterion {self.name!r}:"
        if not isinstance(found, Mapping) or name not in found:
            raise PrunecastError(f"{place} there are no scores for {name!r}; return a dict with every layer.")
        scores = torch.as_tensor(found[name]).detach()
        if scores.shape != mask.shape:
            raise PrunecastError(
                f"{place} the scores of {name!r} have shape {tuple(scores.shape)}; its weights have "
                f"{tuple(mask.shape)}. Return one score per weight."
            )
        if bool((torch.isnan(scores) & mask).any()):
            raise PrunecastError(f"{place} a score of {name!r} is not a number; return finite scores.")
        return scores


def _entry(name: str, found: object) -> Criterion | None:
    if isinstance(found, Criterion):
        return found
    return Criterion(name=name, score=found) if callable(found) else None


CRITERIA = Registry(
    "criterion", METHOD_NAMES["score"], "a function of a PruningContext, or a Criterion", _entry
)


def register_criterion(criterion: Criterion) -> Criterion:
    """Let plans name a criterion by its `name`; returns it, so that a module can keep it."""
    return CRITERIA.add(criterion.name, criterion)


def magnitude(context: PruningContext) -> Scores:
    """The score |w|."""
    return {name: context.weights[name].abs() for name in context.masks}


def squared_magnitude(context: PruningContext) -> Scores:
    """The score w²: a channel's mean is its squared L2 norm per weight."""
    return {name: context.weights[name].square() for name in context.masks}


def taylor(context: PruningContext) -> Scores:
    """The score |w · ∂L/∂w|: to first order, what the loss changes by without the weight."""
    assert context.loss_gradients is not None, "a criterion that needs images gets gradients"
    gradients = context.loss_gradients()
    return {name: (context.weights[name] * gradients[name]).abs() for name in context.masks}


def norm_scale(context: PruningContext, units: Units) -> NDArray[Any]:
    """The mean |γ| of a channel's batch norms; a PrunecastError where a channel has none."""
    norms = {
        f"{path}.weight"
        for path, module in context.untrained.named_modules()
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.affine
    }
    scales = {name: context.network[name].abs() for name in units.owners if name in norms}
    found = units.means(scales, units.everything())
    if np.isnan(found).any():
        layer = units.names[units.groups[int(np.flatnonzero(np.isnan(found))[0])]]
        raise PrunecastError(
            f"score norm-scale: the channels of {layer!r} have no batch norm; choose score magnitude or taylor."
        )
    return found


def _no_single_weights(context: PruningContext) -> Scores:
    raise PrunecastError("score norm-scale compares whole channels; give structure = 'channels'.")


def uniform_units(context: PruningContext, units: Units) -> NDArray[Any]:
    """One random number per unit: the mean of many would be the closer to 1/2 the larger the unit."""
    return context.rng().random(len(units))


def uniform(context: PruningContext) -> Scores:
    """Random scores from the replicate's own stream, which differs from level to level."""
    stream = context.rng()
    return {name: torch.from_numpy(stream.random(mask.shape)) for name, mask in context.masks.items()}


def synflow(context: PruningContext) -> Scores:
    """The score |w| · ∂R/∂|w|, with R the sum of the logits for an image of ones and all parameters replaced by |w|.

    It is computed in float64, because the scores grow by orders of magnitude from layer to layer.
    """
    model = context.model.to(dtype=torch.float64).eval()
    weights = {name: model.get_parameter(name) for name in context.masks}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
        for name, mask in context.masks.items():
            weights[name].mul_(mask)
    with MODULE_CALLS:
        total = model(torch.ones(1, *context.image_shape, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(total, list(weights.values()))
    if not bool(total.isfinite()):
        raise PrunecastError(
            "SynFlow's scores overflow in a network this deep and wide; choose a smaller depth or width."
        )
    pairs = zip(weights.items(), gradients, strict=True)
    return {name: (weight * gradient).detach() for (name, weight), gradient in pairs}


for _criterion in (
    Criterion(name="magnitude", score=magnitude, thread_safe=True),
    Criterion(name="layerwise-magnitude", score=magnitude, per_layer=True, thread_safe=True),
    Criterion(name="squared-magnitude", score=squared_magnitude, thread_safe=True),
    Criterion(name="norm-scale", score=_no_single_weights, of_units=norm_scale, thread_safe=True),
    Criterion(name="taylor", score=taylor, needs_images=True),
    Criterion(name="random", score=uniform, of_units=uniform_units, thread_safe=True),
    Criterion(name="none", score=magnitude, thread_safe=True),
    Criterion(name="synflow", score=synflow, thread_safe=True),
):
    register_criterion(_criterion)

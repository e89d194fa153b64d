"""Losses: what a training run minimises. The table's `loss` is the cross-entropy whatever was minimised.

A loss of your own is a function of logits (examples, classes) and labels (examples) that returns the mean over the
examples. A recipe names it as `loss = "package.module:function"`.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from prunecast.errors import PrunecastError
from prunecast.families import failure_words
from prunecast.plugins import Registry
from prunecast.spec import MODULE_CALLS, RECIPE_NAMES, TORCH_GENERATOR, Recipe

LossFunction = Callable[[Tensor, Tensor], Tensor]
USUAL = "cross-entropy"
TRIED = 8
"""Examples that a loss of your own is tried on."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A loss, for one network and for many at once."""

    name: str
    mean: LossFunction
    """The mean over a batch, a tensor without dimensions."""
    each: LossFunction | None = None
    """The loss of every example from its own logits; a GPU can then train many networks at once. None trains each
    network alone."""


def _entry(name: str, found: object) -> Loss | None:
    if isinstance(found, Loss):
        return found
    return Loss(name=name, mean=partial(_checked_mean, name, found)) if callable(found) else None


def _checked_mean(name: str, function: LossFunction, logits: Tensor, labels: Tensor) -> Tensor:
    value = function(logits, labels)
    if not isinstance(value, Tensor) or value.dim() != 0:
        found = (
            f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        )
        raise PrunecastError(f"loss {name!r} returned {found}; return the mean over the examples.")
    return value


LOSSES = Registry("loss", RECIPE_NAMES["loss"], "a function of logits and labels, or a Loss", _entry)


def register_loss(loss: Loss) -> Loss:
    """Let recipes name a loss by its `name`; returns it, so that a module can keep it."""
    return LOSSES.add(loss.name, loss)


def loss_of(recipe: Recipe) -> Loss:
    """The loss of a recipe, with its label smoothing."""
    loss = LOSSES.get(recipe.loss)
    if not recipe.label_smoothing:
        return loss
    smooth = partial(functional.cross_entropy, label_smoothing=recipe.label_smoothing)
    return dataclasses.replace(loss, mean=smooth, each=partial(smooth, reduction="none"))


def check_loss(recipe: Recipe, num_classes: int) -> None:
    """Try a loss of the user's own on random logits; refuse one that fails or that cannot be minimised."""
    if recipe.loss == USUAL:
        return
    what, loss = f"loss {recipe.loss!r}", loss_of(recipe)
    logits = torch.randn(TRIED, num_classes, generator=torch.Generator().manual_seed(0)).requires_grad_()
    labels = torch.arange(TRIED) % num_classes
    try:
        with MODULE_CALLS, TORCH_GENERATOR, torch.random.fork_rng(devices=[]), torch.enable_grad():
            value = _checked_mean(recipe.loss, loss.mean, logits, labels)
    except PrunecastError:
        raise
    except Exception as failure:
        raise PrunecastError(
            f"{what} fails: {failure_words(failure)}. It is called with logits, of shape (examples, {num_classes}), "
            "and labels, of shape (examples,)."
        ) from failure
    if not value.isfinite():
        raise PrunecastError(f"{what} is {value.item():g} for random logits; return a finite number.")
    if not value.requires_grad:
        raise PrunecastError(
            f"{what} has no gradient; compute it from the logits with operations that torch can differentiate, without "
            "detach, argmax or item."
        )


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of every example."""
    return functional.cross_entropy(logits, labels, reduction="none")


register_loss(Loss(name=USUAL, mean=functional.cross_entropy, each=cross_entropies))

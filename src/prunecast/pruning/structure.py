"""Structures: which weights are removed together.

Most structures divide the prunable weights into units: single weights, output channels, attention heads. They count the
units that are left, score them by the scores of their weights, and remove the chosen ones from the masks. Others say
themselves what a level removes. All sizes in a record are counted from the masks, so a structure says nothing about
sizes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import nn

from prunecast.plugins import Registry, function
from prunecast.pruning.channels import Channels
from prunecast.pruning.criteria import Criterion, PruningContext
from prunecast.pruning.masks import Masks, Scores, count_kept, flat, split
from prunecast.pruning.n_of_m import NOfM
from prunecast.spec import CHANNELS, METHOD_NAMES, n_of_m


class Structure(Protocol):
    """The units of one network. `masks` may be those of a part of its layers."""

    def parts(self, masks: Masks) -> list[Masks]:
        """The smallest sets of layers that hold whole units, for criteria that compare within a layer."""

    def count(self, masks: Masks) -> int:
        """The number of units that are left."""

    def unit_scores(self, masks: Masks, scores: Scores) -> NDArray[Any]:
        """One score for each unit that is left, from the scores of the weights."""

    def remove(self, masks: Masks, units: NDArray[np.int64]) -> Masks:
        """The masks without these units, which are numbered as in `unit_scores`."""


@runtime_checkable
class LevelStructure(Protocol):
    """A structure that says itself what a level removes."""

    def check(self, image_shape: tuple[int, ...]) -> None:
        """Refuse a network that it cannot prune."""

    def next_masks(
        self, context: PruningContext, criterion: Criterion, keep: Callable[[int], int], final: int | None
    ) -> Masks:
        """The masks of the context's level, from those in the context.

        `keep` says how much of a measure the schedule leaves, from how much there was. No more is removed than it takes
        to get to `final` weights or fewer.
        """


class SingleWeights:
    """Every weight is a unit of its own."""

    def __init__(self, model: nn.Module | None = None) -> None:
        """Single weights need to know nothing about the network."""

    def parts(self, masks: Masks) -> list[Masks]:
        """Each layer alone."""
        return [{name: mask} for name, mask in masks.items()]

    def count(self, masks: Masks) -> int:
        """The number of weights that are left."""
        return count_kept(masks)

    def unit_scores(self, masks: Masks, scores: Scores) -> NDArray[Any]:
        """The scores of the weights that are left, in module order and row-major within a layer."""
        kept = np.concatenate([flat(mask) for mask in masks.values()])
        found: NDArray[Any] = np.concatenate([flat(scores[name]) for name in masks])[kept]
        return found

    def remove(self, masks: Masks, units: NDArray[np.int64]) -> Masks:
        """The masks without these weights."""
        kept = np.concatenate([flat(mask) for mask in masks.values()])
        kept[np.flatnonzero(kept)[units]] = False
        return split(kept, masks)


StructureOf = Callable[[nn.Module], Structure | LevelStructure]
"""Finds the units of an untrained network: a structure's class, or a function."""


STRUCTURES: Registry[StructureOf] = Registry(
    "structure", METHOD_NAMES["structure"], "a function of a network", function
)


def register_structure(name: str, structure: StructureOf) -> StructureOf:
    """Let plans name a structure."""
    return STRUCTURES.add(name, structure)


def structure_of(name: str) -> StructureOf:
    """The structure of this name: a registered one, `N:M`, or a user's own."""
    pair = n_of_m(name)
    return STRUCTURES.get(name) if pair is None else partial(_n_of_m, *pair)


def _n_of_m(keep: int, group: int, model: nn.Module) -> NOfM:
    return NOfM(keep=keep, group=group, model=model)


register_structure("weights", SingleWeights)
register_structure(CHANNELS, Channels)

"""Structures: which weights are removed together.

A structure divides the prunable weights into units: single weights, output channels, attention heads. It counts the
units that are left, scores them by the scores of their weights, and removes the chosen ones from the masks. All sizes
in a record are counted from the masks, so a structure says nothing about sizes.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import nn

from prunecast.errors import PrunecastError
from prunecast.plugins import Registry
from prunecast.pruning.channels import Channels
from prunecast.pruning.masks import Masks, Scores, count_kept, flat, split
from prunecast.spec import CHANNELS, METHOD_NAMES


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


StructureOf = Callable[[nn.Module], Structure | Channels]
"""Finds the units of an untrained network: a structure's class, or a function."""


def _own(name: str, found: object) -> StructureOf:
    if not callable(found):
        raise PrunecastError(
            f"structure {name!r} is {type(found).__name__}; it must be a function of a network."
        )
    return found


STRUCTURES = Registry("structure", METHOD_NAMES["structure"], _own)


def register_structure(name: str, structure: StructureOf) -> StructureOf:
    """Let plans name a structure."""
    return STRUCTURES.add(name, structure)


register_structure("weights", SingleWeights)
register_structure(CHANNELS, Channels)

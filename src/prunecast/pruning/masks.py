"""Masks: which weights are kept, how many there are, and the exact choice of the lowest scores."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Masks = dict[str, Tensor]
"""By layer in module order, a boolean tensor that is true where a weight is kept."""
Scores = Mapping[str, Tensor]


def full_masks(weights: Mapping[str, Tensor]) -> Masks:
    """Masks that keep everything."""
    return {name: torch.ones(weight.shape, dtype=torch.bool) for name, weight in weights.items()}


def count_kept(masks: Mapping[str, Tensor]) -> int:
    """The number of weights that are kept."""
    return sum(int(mask.sum()) for mask in masks.values())


def count_total(masks: Mapping[str, Tensor]) -> int:
    """The number of prunable weights."""
    return sum(mask.numel() for mask in masks.values())


def dead_layers(masks: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The names of prunable tensors without a weight left, in module order."""
    return tuple(name for name, mask in masks.items() if not bool(mask.any()))


def lowest(scores: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The positions of the `count` lowest scores; of equal scores, the first."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    border = np.partition(scores, count - 1)[count - 1]
    below = np.flatnonzero(scores < border)
    at_border = np.flatnonzero(scores == border)
    return np.concatenate([below, at_border[: count - len(below)]])


def flat(tensor: Tensor) -> NDArray[Any]:
    """A tensor's values in row-major order."""
    values: NDArray[Any] = tensor.detach().cpu().contiguous().numpy().reshape(-1)
    return values


def split(values: NDArray[Any], like: Masks) -> Masks:
    """Masks of these shapes from the values of all layers in a row."""
    ends = np.cumsum([mask.numel() for mask in like.values()])
    parts = np.split(values, ends[:-1])
    return {
        name: torch.from_numpy(part.copy()).reshape(mask.shape)
        for (name, mask), part in zip(like.items(), parts, strict=True)
    }

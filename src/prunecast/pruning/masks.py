"""Masks, and the exact choice of the weights that go.

Counts: a pruning removes ceil(fraction · surviving) weights, so that every level removes at least one. Ties:
of equal scores the first goes first, in module order and then in row-major order within a weight.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Masks = dict[str, Tensor]
Scores = Mapping[str, Tensor]


def full_masks(weights: Mapping[str, Tensor]) -> Masks:
    """Masks that keep everything."""
    return {name: torch.ones(weight.shape, dtype=torch.bool) for name, weight in weights.items()}


def count_kept(masks: Mapping[str, Tensor]) -> int:
    """The number of surviving weights."""
    return sum(int(mask.sum()) for mask in masks.values())


def count_total(masks: Mapping[str, Tensor]) -> int:
    """The number of prunable weights."""
    return sum(mask.numel() for mask in masks.values())


def count_pruned(surviving: int, fraction: float) -> int:
    """Return ceil(fraction · surviving), exactly: 0.2 is one fifth, not the nearest binary number."""
    return math.ceil(Fraction(repr(fraction)) * surviving)


def kept_at(total: int, fraction: float, level: int) -> int:
    """The weights that survive after `level` prunings of the whole network."""
    for _ in range(level):
        total -= count_pruned(total, fraction)
    return total


def levels_to(parts: Sequence[int], fraction: float, final: int) -> int:
    """The level at which `final` weights are left, where each of these parts loses its fraction at every level."""
    level, surviving = 0, list(parts)
    while sum(surviving) > final:
        surviving = [kept - count_pruned(kept, fraction) for kept in surviving]
        level += 1
    return level


def shared_out(total: int, parts: Sequence[int]) -> list[int]:
    """Divide `total` in proportion to whole numbers, rounded down; what is left goes to the largest remainders."""
    whole = sum(parts)
    shares = [total * part // whole for part in parts]
    order = sorted(range(len(parts)), key=lambda place: -(total * parts[place] % whole))
    for place in order[: total - sum(shares)]:
        shares[place] += 1
    return shares


def prune_lowest(masks: Masks, scores: Scores, count: int) -> Masks:
    """Remove the `count` surviving weights with the lowest scores, wherever in the network they are."""
    kept = np.concatenate([_flat(mask) for mask in masks.values()])
    ranked = np.concatenate([_flat(scores[name]) for name in masks])
    survivors = np.flatnonzero(kept)
    kept[survivors[lowest(ranked[survivors], count)]] = False
    return _split(kept, masks)


def lowest(scores: NDArray[Any], count: int) -> NDArray[np.int64]:
    """The positions of the `count` lowest scores; of equal ones at the border the first."""
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    border = np.partition(scores, count - 1)[count - 1]
    below = np.flatnonzero(scores < border)
    at_border = np.flatnonzero(scores == border)
    return np.concatenate([below, at_border[: count - len(below)]])


def _flat(tensor: Tensor) -> NDArray[Any]:
    flat: NDArray[Any] = tensor.detach().cpu().contiguous().numpy().reshape(-1)
    return flat


def _split(flat: NDArray[Any], like: Masks) -> Masks:
    ends = np.cumsum([mask.numel() for mask in like.values()])
    parts = np.split(flat, ends[:-1])
    return {
        name: torch.from_numpy(part.copy()).reshape(mask.shape)
        for (name, mask), part in zip(like.items(), parts, strict=True)
    }

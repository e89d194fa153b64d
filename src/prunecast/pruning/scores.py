"""One pruning after a training: the next level's masks from this level's weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from prunecast.pruning.masks import Masks, count_kept, count_pruned, prune_lowest, shared_out
from prunecast.spec import Method, rng


def next_masks(
    method: Method,
    masks: Masks,
    weights: Mapping[str, Tensor],
    replicate: int,
    level: int,
    final: int | None = None,
) -> Masks:
    """The masks of `level`, from those of the level before and the weights it ended with.

    No fewer than `final` weights are kept; the level that would pass it keeps exactly so many.
    """
    if method.score == "none":
        return dict(masks)
    values = random_scores(masks, replicate, level) if method.score == "random" else weights
    groups = parts(method, masks)
    counts = [count_pruned(count_kept(group), method.fraction) for group in groups]
    most = sum(counts) if final is None else max(0, count_kept(masks) - final)
    if most < sum(counts):
        counts = shared_out(most, counts)
    pruned = (_prune(group, values, count) for group, count in zip(groups, counts, strict=True))
    return {name: mask for group in pruned for name, mask in group.items()}


def parts(method: Method, masks: Masks) -> list[Masks]:
    """The sets of layers within which weights are ranked: each layer alone, or the whole network."""
    alone = method.score == "layerwise-magnitude"
    return [{name: mask} for name, mask in masks.items()] if alone else [masks]


def _prune(masks: Masks, values: Mapping[str, Tensor], count: int) -> Masks:
    """Prune so many of these layers' survivors by the magnitude of the values."""
    return prune_lowest(masks, {name: values[name].abs() for name in masks}, count)


def random_scores(masks: Masks, replicate: int, level: int) -> dict[str, Tensor]:
    """Uniform scores from the replicate's own stream, another for every level."""
    stream = rng(replicate, "score", level)
    return {name: torch.from_numpy(stream.random(mask.shape)) for name, mask in masks.items()}

"""One pruning after a training: the next level's masks from this level's weights."""

from collections.abc import Mapping

import torch
from torch import Tensor

from prunecast.pruning.masks import Masks, count_kept, count_pruned, prune_lowest
from prunecast.spec import Method
from prunecast.spec.streams import rng


def next_masks(
    method: Method, masks: Masks, weights: Mapping[str, Tensor], replicate: int, level: int
) -> Masks:
    """The masks of `level`, from those of the level before and the weights it ended with."""
    if method.score == "none":
        return dict(masks)
    if method.score == "layerwise-magnitude":
        layers = ({name: mask} for name, mask in masks.items())
        return {name: mask for layer in layers for name, mask in _prune(method, layer, weights).items()}
    scores = weights if method.score == "magnitude" else random_scores(masks, replicate, level)
    return _prune(method, masks, scores)


def _prune(method: Method, masks: Masks, values: Mapping[str, Tensor]) -> Masks:
    """Prune a fraction of these layers' survivors by the magnitude of the values."""
    scores = {name: values[name].abs() for name in masks}
    return prune_lowest(masks, scores, count_pruned(count_kept(masks), method.fraction))


def random_scores(masks: Masks, replicate: int, level: int) -> dict[str, Tensor]:
    """Uniform scores from the replicate's own stream, another for every level."""
    stream = rng(replicate, "score", level)
    return {name: torch.from_numpy(stream.random(mask.shape)) for name, mask in masks.items()}

"""SynFlow: pruning before training, by how much each weight carries from input to output."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from prunecast.errors import PrunecastError
from prunecast.pruning.masks import Masks, count_kept, count_total, full_masks, prune_lowest
from prunecast.spec import MODULE_CALLS


def synflow_masks(
    model: nn.Module, prunable: tuple[str, ...], image_shape: tuple[int, ...], kept: int, substeps: int
) -> Masks:
    """Prune an untrained network to `kept` weights, through densities s^(1/100), s^(2/100), ... s.

    Scores are computed anew at every substep, in float64, because they grow by orders of magnitude a layer.
    """
    positive = _positive_copy(model)
    weights = {name: weight for name, weight in positive.named_parameters() if name in prunable}
    masks = full_masks(weights)
    total = count_total(masks)
    for substep in range(1, substeps + 1):
        target = max(kept, round(total * (kept / total) ** (substep / substeps)))
        if target < count_kept(masks):
            scores = synaptic_flow(positive, weights, masks, image_shape)
            masks = prune_lowest(masks, scores, count_kept(masks) - target)
    return masks


def synaptic_flow(
    positive: nn.Module, weights: Mapping[str, Tensor], masks: Masks, image_shape: tuple[int, ...]
) -> dict[str, Tensor]:
    """The score |w| · ∂R/∂|w|, R the sum of the logits for an input of ones and weights replaced by |w|."""
    with torch.no_grad():
        for name, weight in weights.items():
            weight.mul_(masks[name])
    with MODULE_CALLS:
        total = positive(torch.ones(1, *image_shape, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(total, list(weights.values()))
    if not bool(total.isfinite()):
        raise PrunecastError(
            "SynFlow's scores overflow in a network this deep and wide; choose a smaller depth or width."
        )
    pairs = zip(weights.items(), gradients, strict=True)
    return {name: (weight * gradient).detach() for (name, weight), gradient in pairs}


def _positive_copy(model: nn.Module) -> nn.Module:
    """A float64 copy on the CPU with every parameter replaced by its magnitude; batch norm only scales."""
    positive = copy.deepcopy(model).to(device="cpu", dtype=torch.float64).eval()
    with torch.no_grad():
        for parameter in positive.parameters():
            parameter.abs_()
    return positive

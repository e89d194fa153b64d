"""Error and loss of a network on a set of examples, without augmentation."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from prunecast.data import Source, batches
from prunecast.spec import Precision
from prunecast.training.device import autocast
from prunecast.training.parallel import ALONE, ProcessGroup

MOST_EXAMPLES, MOST_PIXELS = 1000, 3_000_000


@dataclass(frozen=True, kw_only=True)
class Score:
    """The result of an evaluation."""

    error: float
    """The share of examples whose largest logit is not the label's."""
    loss: float
    """The mean cross-entropy."""


def evaluation_batch(source: Source) -> int:
    """Return how many examples to evaluate at once: a thousand small images, fewer large ones to save memory."""
    _, height, width = source.image_shape
    return max(1, min(MOST_EXAMPLES, MOST_PIXELS // (height * width)))


@torch.no_grad()
def evaluate(
    model: nn.Module, source: Source, indices: Tensor, precision: Precision, group: ProcessGroup = ALONE
) -> Score:
    """Evaluate on the examples of these indices; the counts stay on the device until the end.

    Each process of a group evaluates its part, and all get the score of the whole.
    """
    device = source.labels.device
    wrong = torch.zeros((), dtype=torch.int64, device=device)
    loss = torch.zeros((), dtype=torch.float64, device=device)
    was_training = model.training
    model.eval()
    part = indices[group.part(len(indices))].to("cpu" if source.streams else device)
    plan = [(chosen, None) for chosen in torch.split(part, evaluation_batch(source)) if len(chosen)]
    for (chosen, _), images in zip(plan, batches(source, plan), strict=True):
        with autocast(precision, device):
            logits = model(images).float()
        labels = source.labels[chosen.to(device)]
        wrong += (logits.argmax(1) != labels).sum()
        loss += functional.cross_entropy(logits, labels, reduction="sum")
    model.train(was_training)
    count = len(indices)
    return Score(error=group.total(wrong).item() / count, loss=group.total(loss).item() / count)

"""The structure `N:M` keeps N of each M consecutive weights along a layer's inputs, as sparse tensor cores need.

In a linear layer, a group is M consecutive inputs of one output. In a convolution, it is M consecutive input channels
of one output channel at one position of the kernel. Level 0 keeps all weights (M:M). Each level removes the weight with
the lowest score from each group: (M − 1):M, then (M − 2):M, down to N:M, where the chain ends. The method's fraction
and schedule are not used. A method that prunes before training begins each level with all weights, and scores the
remaining ones again after each removal.

A layer keeps all its weights if M does not divide its number of inputs, or if the dimension of its inputs is unknown.
These weights count as prunable, so the density of such a network is above N/M.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from prunecast.errors import PrunecastError
from prunecast.families import INTO_ATTENTION, NotPrunable, prunable
from prunecast.pruning.criteria import Criterion, PruningContext
from prunecast.pruning.masks import Masks, count_kept


@dataclass(frozen=True, kw_only=True)
class NOfM:
    """Groups of M weights, of which the last level keeps N."""

    keep: int
    group: int
    model: nn.Module
    """The untrained network."""

    def check(self, image_shape: tuple[int, ...]) -> None:
        """Refuse a network in which every layer would keep all its weights."""
        if not self._grouped(dict(self._weights())):
            raise PrunecastError(
                f"structure {self.keep}:{self.group}: no layer has a number of inputs that is a multiple of "
                f"{self.group}; choose a smaller group, or a wider network."
            )

    def next_masks(
        self, context: PruningContext, criterion: Criterion, keep: Callable[[int], int], final: int | None
    ) -> Masks:
        """Remove one weight from each group that has more than N.

        Masks that keep `final` weights or fewer stay as they are.
        """
        rounds = min(context.level, self.group - self.keep) if context.method.before_training else 1
        for _ in range(rounds):
            if self.finished(context.masks) or (final is not None and count_kept(context.masks) <= final):
                break
            context.masks = self._without_lowest(context.masks, criterion.scores(context))
        return context.masks

    def finished(self, masks: Masks) -> bool:
        """Whether no group has more than N weights."""
        return all(
            bool((_groups(masks[name], axis, self.group).sum(1) <= self.keep).all())
            for name, axis in self._grouped(masks).items()
        )

    def kept_dense(self) -> tuple[NotPrunable, ...]:
        """The prunable tensors that keep all their weights, in module order."""
        weights = dict(self._weights())
        grouped = self._grouped(weights)
        return tuple(
            NotPrunable(name=name, parameters=tensor.numel())
            for name, tensor in weights.items()
            if name not in grouped
        )

    def counts(self) -> tuple[int, ...]:
        """The weights that are left at each level, from level 0 on."""
        weights = dict(self._weights())
        grouped = sum(weights[name].numel() for name in self._grouped(weights))
        total = sum(tensor.numel() for tensor in weights.values())
        return tuple(total - grouped // self.group * level for level in range(self.group - self.keep + 1))

    def _weights(self) -> list[tuple[str, Tensor]]:
        return [(name, self.model.get_parameter(name)) for name in prunable(self.model)]

    def _grouped(self, tensors: Mapping[str, Tensor]) -> dict[str, int]:
        """The dimension of the inputs of those tensors that are pruned."""
        axes = {name: input_axis(self.model, name) for name in tensors}
        return {
            name: axis
            for name, axis in axes.items()
            if axis is not None and tensors[name].shape[axis] % self.group == 0
        }

    def _without_lowest(self, masks: Masks, scores: Mapping[str, Tensor]) -> Masks:
        """Remove the weight with the lowest score (the first of equal ones) from each group of more than N."""
        left = dict(masks)
        for name, axis in self._grouped(masks).items():
            kept = _groups(masks[name], axis, self.group)
            order = np.argsort(_groups(scores[name], axis, self.group), axis=1, kind="stable")
            first = np.take_along_axis(kept, order, axis=1).argmax(axis=1)
            rows = np.flatnonzero(kept.sum(1) > self.keep)
            kept[rows, order[rows, first[rows]]] = False
            left[name] = _restored(kept, masks[name], axis)
        return left


def input_axis(model: nn.Module, name: str) -> int | None:
    """The dimension of a weight that counts its inputs; None if unknown."""
    path, _, key = name.rpartition(".")
    module = model.get_submodule(path)
    if isinstance(module, _ConvTransposeNd):
        return 0 if key == "weight" and module.groups == 1 else None
    if isinstance(module, _ConvNd | nn.Linear):
        return 1 if key == "weight" else None
    return 1 if isinstance(module, nn.MultiheadAttention) and key in INTO_ATTENTION else None


def _groups(tensor: Tensor, axis: int, size: int) -> NDArray[Any]:
    """Copy a tensor's values into an array with one row per group."""
    return tensor.detach().cpu().movedim(axis, -1).contiguous().numpy().reshape(-1, size).copy()


def _restored(groups: NDArray[Any], like: Tensor, axis: int) -> Tensor:
    """Undo `_groups`: the tensor of these rows."""
    moved = like.movedim(axis, -1).shape
    return torch.from_numpy(groups).reshape(moved).movedim(-1, axis).contiguous()

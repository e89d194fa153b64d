"""The structure `channels`: whole channels, hidden units and attention heads are removed with all that belongs to them.

The masks of a level have neither the rows that compute a removed unit nor the columns that read it, so the network with
these masks computes what the network without the units computes, and `nonzero` counts the weights of the latter. Units
of all layers are compared by the mean score of their weights, and every group of units keeps at least one.

A level is trained on the network without the removed units, which is faster. The store has whole tensors, so a
checkpoint of the small network is written as one of the whole network, and a fleet or the masked network can continue
from it. Where removed channels were, weights are zero, and biases and norms have the values that the level began with;
nothing reads them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from prunecast.families import Flags, Units, find_units
from prunecast.pruning.criteria import Criterion, PruningContext
from prunecast.pruning.masks import Masks, full_masks
from prunecast.spec import CHANNELS, Method
from prunecast.training import State

Order = NDArray[np.int64]


class Channels:
    """The units of one network, found when they are first needed."""

    def __init__(self, model: nn.Module) -> None:
        """`model` is the untrained network."""
        self.model = model

    def check(self, image_shape: tuple[int, ...]) -> None:
        """Refuse a network whose channels cannot be removed."""
        find_units(self.model, image_shape)

    def next_masks(
        self, context: PruningContext, criterion: Criterion, keep: Callable[[int], int], final: int | None
    ) -> Masks:
        """The masks after some units are removed, the lowest scores first.

        `keep` says how much of a measure is left at the end of the level, from how much there was. No more are removed
        than it takes to get to `final` weights or fewer.
        """
        method = context.method
        units = find_units(self.model, context.image_shape)
        before = measured(units, units.kept(context.masks), method)
        after = keep(before)
        substeps = method.substeps if method.before_training else 1
        for substep in range(1, substeps + 1):
            target = max(after, round(before * (after / before) ** (substep / substeps)))
            kept = _pruned(context, criterion, units, target, final)
            context.masks = units.masks(kept, context.masks)
        return context.masks


def _pruned(
    context: PruningContext, criterion: Criterion, units: Units, target: int, final: int | None
) -> Flags:
    """Remove as few units as it takes to get to the target, or to the final number of weights."""
    kept = units.kept(context.masks)
    if measured(units, kept, context.method) <= target:
        return kept
    order = removal_order(units, kept, unit_scores(context, criterion, units, kept), criterion)

    def on_target(count: int) -> bool:
        return measured(units, without(kept, order[:count]), context.method) <= target

    def small(count: int) -> bool:
        return final is not None and units.weights(context.masks, without(kept, order[:count])) <= final

    return without(kept, order[: min(fewest(len(order), on_target), fewest(len(order), small))])


def measured(units: Units, kept: Flags, method: Method) -> int:
    """The quantity of which the method's fraction is a share: units, parameters or multiply-adds."""
    if method.fraction_of == "units":
        return int(kept.sum())
    sizes = units.sizes(kept)
    return sizes.parameters if method.fraction_of == "parameters" else sizes.multiply_adds or 0


def unit_scores(
    context: PruningContext, criterion: Criterion, units: Units, kept: Flags
) -> NDArray[np.float64]:
    """The score of every unit: the criterion's own, or the mean over its weights that are left."""
    if criterion.of_units is not None:
        return np.asarray(criterion.of_units(context, units), dtype=np.float64)
    return units.means(criterion.scores(context), kept)


def removal_order(units: Units, kept: Flags, scores: NDArray[np.float64], criterion: Criterion) -> Order:
    """The units in the order in which they go, without the last of each group; of equal scores the first goes first.

    A criterion that compares within layers ranks a unit by its place in its group, as a share of the group.
    """
    order: list[NDArray[np.int64]] = []
    keys = scores.copy()
    for group in range(len(units.names)):
        members = np.flatnonzero(kept & (units.groups == group))
        ranked = members[np.argsort(scores[members], kind="stable")]
        if criterion.per_layer:
            keys[ranked] = np.arange(1, len(ranked) + 1) / max(1, len(ranked))
        order.append(ranked[:-1])
    candidates = np.sort(np.concatenate(order))
    return candidates[np.argsort(keys[candidates], kind="stable")]


def removable(units: Units, kept: Flags) -> bool:
    """Whether any group has more than one unit left."""
    return bool((np.bincount(units.groups[kept], minlength=len(units.names)) > 1).any())


def without(kept: Flags, gone: Order) -> Flags:
    """The flags without some units."""
    left = kept.copy()
    left[gone] = False
    return left


def fewest(most: int, enough: Callable[[int], bool]) -> int:
    """The smallest count up to `most` that is enough, by bisection; `most` if none is."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, kw_only=True, eq=False)
class Slicing:
    """Translates tensors between the whole network of a level and the network without removed units."""

    units: Units
    kept: Flags
    parameters: tuple[str, ...]
    """The names of the parameters, in the order of the optimizer's state."""
    whole: Mapping[str, Tensor]
    """The network that the level begins with, zero where weights were removed."""

    def small_network(self, model: nn.Module) -> nn.Module:
        """A copy of a whole network without the removed units."""
        return self.units.sliced(model, self.kept)

    def small_masks(self, masks: Masks) -> Masks:
        """Masks of the small network: everything is kept."""
        return full_masks(
            {name: self.units.slice_tensor(name, mask, self.kept) for name, mask in masks.items()}
        )

    def small_state(self, state: State) -> State:
        """A state of the whole network as one of the small network."""
        return self._changed(state, lambda name, tensor, _: self.units.slice_tensor(name, tensor, self.kept))

    def whole_state(self, state: State) -> State:
        """A state of the small network as one of the whole network."""
        return self._changed(state, self._restored)

    def _restored(self, name: str, tensor: Tensor, moment: bool) -> Tensor:
        whole = self.whole[name].to(tensor.dtype)
        return self.units.restore_tensor(
            name, tensor, torch.zeros_like(whole) if moment else whole, self.kept
        )

    def _changed(self, state: State, change: Callable[[str, Tensor, bool], Tensor]) -> State:
        slots = {}
        for key, tensor in state.optimizer_state.items():
            position = int(key.rpartition("/")[2])
            slots[key] = change(self.parameters[position], tensor, True) if tensor.dim() else tensor
        network = {name: change(name, tensor, False) for name, tensor in state.network.items()}
        return State(network=network, optimizer_state=slots)


def find_slicing(
    method: Method,
    model: nn.Module,
    image_shape: tuple[int, ...],
    masks: Masks,
    network: Mapping[str, Tensor],
) -> Slicing | None:
    """The slicing for a level with these masks; None if no channels were removed.

    `model` is the untrained network, and `network` the tensors that the level begins with.
    """
    if method.structure != CHANNELS:
        return None
    units = find_units(model, image_shape)
    kept = units.kept(masks)
    if kept.all():
        return None
    whole = {name: tensor * masks[name] if name in masks else tensor for name, tensor in network.items()}
    names = tuple(name for name, _ in model.named_parameters())
    return Slicing(units=units, kept=kept, parameters=names, whole=whole)

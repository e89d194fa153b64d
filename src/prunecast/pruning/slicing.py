"""A level of a chain of channels on the network without the removed ones, which trains faster.

The store has whole tensors, so a checkpoint of the small network is written as one of the whole network, and a fleet
or the masked network can continue from it. Where removed channels were, weights are zero, and biases and norms have the
values that the level began with; nothing reads them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from prunecast.families import Flags, Units, find_units
from prunecast.pruning.level import Level
from prunecast.pruning.masks import Masks, full_masks
from prunecast.pruning.opened import Chain
from prunecast.spec import CHANNELS
from prunecast.training import State


@dataclass(frozen=True, kw_only=True, eq=False)
class Slicing:
    """How the tensors of a level's whole network and those of its small one belong to each other."""

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


def slicing_of(chain: Chain, level: Level) -> Slicing | None:
    """How to train a level on a smaller network; None where no channels were removed."""
    if chain.spec.method.structure != CHANNELS:
        return None
    units = find_units(chain.untrained, chain.dataset.train.image_shape)
    kept = units.kept(level.masks)
    if kept.all():
        return None
    whole = {
        name: tensor * level.masks[name] if name in level.masks else tensor
        for name, tensor in level.network.items()
    }
    names = tuple(name for name, _ in chain.untrained.named_parameters())
    return Slicing(units=units, kept=kept, parameters=names, whole=whole)

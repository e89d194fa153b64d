"""Slots for networks that lost channels: with room for some units of each group, they are narrower than whole ones.

Every level leaves other channels, and building a pack takes time. So a member may lie in a slot with room for more
units than it has left: some of its removed units then come along, masked to zero, as they do in a whole network. What
is stored is the whole network, as the plain loop stores it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from prunecast.families import Flags, Units, find_units
from prunecast.fleet.members import Member
from prunecast.fleet.queue import PackShape, places
from prunecast.pruning import Slicing
from prunecast.training import State


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A place for networks of one width of which no more than so many units are left."""

    width: float
    counts: tuple[int, ...]
    """By group of units, how many there is room for."""
    multiply_adds: int = field(compare=False)

    def holds(self, other: "Slot") -> bool:
        """Whether a network that needs the other slot fits into this one."""
        pairs = zip(self.counts, other.counts, strict=True)
        return self.width == other.width and all(most >= count for most, count in pairs)


SlicedShape = tuple[Slot, ...]
Shape = PackShape | SlicedShape
"""The slots of a pack: of whole networks, by their widths, or of sliced ones."""


def widths(shape: Shape) -> PackShape:
    """The widths of the whole networks that the slots are for."""
    return tuple(own.width if isinstance(own, Slot) else own for own in shape)


def slot_of(member: Member, *, whole: bool = False) -> Slot:
    """The slot that just holds a chain's network as it is at its level, or as it is `whole`."""
    chain, slicing = member.chain, member.slicing
    units = slicing.units if slicing else find_units(chain.untrained, chain.dataset.train.image_shape)
    kept = slicing.kept if slicing and not whole else units.everything()
    counts = tuple(units.counts(kept).values())
    return Slot(width=member.width, counts=counts, multiply_adds=units.sizes(kept).multiply_adds or 0)


def work(slots: Sequence[Slot]) -> int:
    """Multiply-adds of an image in all of these slots."""
    return sum(slot.multiply_adds for slot in slots)


def sliced_shape(members: Sequence[Member], known: Sequence[SlicedShape], waste: float) -> SlicedShape | None:
    """The slots for these members: of the known shapes the one with the least work, or a new one that just holds them.

    None stands for whole networks. Slots have at most `waste` times the work of what lies in them, unless they are
    whole: a new shape is not worth less.
    """
    if all(member.slicing is None for member in members):
        return None
    needed = [slot_of(member) for member in members]
    most = waste * work(needed)
    if work([slot_of(member, whole=True) for member in members]) <= most:
        return None
    good = [shape for shape in known if work(shape) <= most and _assigned(shape, needed) is not None]
    own = sorted(needed, key=lambda slot: (slot.width, slot.counts), reverse=True)
    return min(good, key=work, default=tuple(own))


def places_in(shape: Shape, members: Sequence[Member]) -> list[int]:
    """A slot for every member; the shape must have been found for them."""
    if not any(isinstance(own, Slot) for own in shape):
        return places(widths(shape), members)
    needed = [slot_of(member) for member in members]
    found = _assigned(tuple(own for own in shape if isinstance(own, Slot)), needed)
    assert found is not None, "a shape without room for these members"
    return found


def _assigned(shape: SlicedShape, needed: Sequence[Slot]) -> list[int] | None:
    """Slots for members, the largest first, each in the smallest one left that holds it; None where one finds none."""
    free, found = set(range(len(shape))), {}
    for place in sorted(range(len(needed)), key=lambda place: needed[place].multiply_adds, reverse=True):
        room = [slot for slot in free if shape[slot].holds(needed[place])]
        if not room:
            return None
        found[place] = min(room, key=lambda slot: (shape[slot].multiply_adds, slot))
        free.remove(found[place])
    return [found[place] for place in range(len(needed))]


@dataclass(frozen=True, kw_only=True, eq=False)
class InSlot:
    """Translates between the whole network of a level and what lies in a slot."""

    slicing: Slicing
    """Of the level."""
    room: tuple[int, ...] | None
    """By group of units, how many the slot has room for; None where it holds the whole network."""

    @cached_property
    def _there(self) -> Slicing | None:
        """The slicing to the units in the slot: those that are left, and removed ones where there is room."""
        if self.room is None:
            return None
        return replace(self.slicing, kept=_filled(self.slicing.units, self.slicing.kept, self.room))

    def masks(self, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Masks of the level as those of the slot."""
        there = self._there
        if there is None:
            return dict(masks)
        return {name: there.units.slice_tensor(name, mask, there.kept) for name, mask in masks.items()}

    def into(self, state: State) -> State:
        """A state of the whole network as one of the slot."""
        return state if self._there is None else self._there.small_state(state)

    def out(self, state: State) -> State:
        """A state of the slot as one of the whole network; units that are gone are as the level began."""
        whole = state if self._there is None else self._there.whole_state(state)
        return self.slicing.whole_state(self.slicing.small_state(whole))


def in_slots(members: Sequence[Member], shape: Shape, slots: Sequence[int]) -> list[InSlot | None]:
    """How each member's network lies in its slot; None where it has lost no channels."""
    found: list[InSlot | None] = []
    for member, number in zip(members, slots, strict=True):
        slot = shape[number] if shape else None
        room = slot.counts if isinstance(slot, Slot) else None
        found.append(None if member.slicing is None else InSlot(slicing=member.slicing, room=room))
    return found


def _filled(units: Units, kept: Flags, room: Sequence[int]) -> Flags:
    """The units that are left, and the first removed ones of each group up to the number there is room for."""
    there = kept.copy()
    for group, most in enumerate(room):
        gone = np.flatnonzero((units.groups == group) & ~kept)
        there[gone[: most - int((kept & (units.groups == group)).sum())]] = True
    return there

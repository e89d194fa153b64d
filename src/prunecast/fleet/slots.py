"""Slots for networks that lost channels. They hold only some units of each group, so they compute less.

Each level keeps different channels, and building a pack takes time. So a slot may have room for more units than its
member has left. The rest of the room is filled with removed units, masked to zero, as in a whole network. The store
always gets the whole network, as from the plain loop.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from torch import Tensor

from prunecast.families import Flags, Units, find_units
from prunecast.fleet.members import Member
from prunecast.fleet.queue import PackShape, slots_by_width
from prunecast.pruning import Slicing
from prunecast.training import State


@dataclass(frozen=True, kw_only=True)
class Slot:
    """A slot for networks of one width, with room for a number of units of each group."""

    width: float
    counts: tuple[int, ...]
    """The units there is room for, by group."""
    multiply_adds: int = field(compare=False)

    def holds(self, other: "Slot") -> bool:
        """Whether this slot has at least the room of the other."""
        pairs = zip(self.counts, other.counts, strict=True)
        return self.width == other.width and all(most >= count for most, count in pairs)


SlicedShape = tuple[Slot, ...]
Shape = PackShape | SlicedShape
"""The slots of a pack: widths if they hold whole networks, otherwise slots for sliced networks."""


def widths(shape: Shape) -> PackShape:
    """The width of each slot's networks, before channels were removed."""
    return tuple(own.width if isinstance(own, Slot) else own for own in shape)


def slot_of(member: Member, *, whole: bool = False) -> Slot:
    """The smallest slot for a member's network at its level, or for its `whole` network."""
    chain, slicing = member.chain, member.slicing
    units = slicing.units if slicing else find_units(chain.untrained, chain.dataset.train.image_shape)
    kept = slicing.kept if slicing and not whole else units.everything()
    counts = tuple(units.counts(kept).values())
    return Slot(width=member.width, counts=counts, multiply_adds=units.sizes(kept).multiply_adds or 0)


def multiply_adds_in(slots: Sequence[Slot]) -> int:
    """Multiply-adds per image in all of these slots."""
    return sum(slot.multiply_adds for slot in slots)


def sliced_shape(members: Sequence[Member], known: Sequence[SlicedShape], waste: float) -> SlicedShape | None:
    """Slots for these members: the known shape with the fewest multiply-adds, or else a new one without spare room.

    None means whole networks: they are used if they have at most `waste` times the multiply-adds of the sliced members.
    A known shape is used under the same condition.
    """
    if all(member.slicing is None for member in members):
        return None
    needed = [slot_of(member) for member in members]
    most = waste * multiply_adds_in(needed)
    if multiply_adds_in([slot_of(member, whole=True) for member in members]) <= most:
        return None
    good = [
        shape for shape in known if multiply_adds_in(shape) <= most and _assigned(shape, needed) is not None
    ]
    own = sorted(needed, key=lambda slot: (slot.width, slot.counts), reverse=True)
    return min(good, key=multiply_adds_in, default=tuple(own))


def assign_slots(shape: Shape, members: Sequence[Member]) -> list[int]:
    """The slot of each member; the shape must be one that was found for them."""
    if not any(isinstance(own, Slot) for own in shape):
        return slots_by_width(widths(shape), members)
    needed = [slot_of(member) for member in members]
    found = _assigned(tuple(own for own in shape if isinstance(own, Slot)), needed)
    assert found is not None, "a shape without room for these members"
    return found


def _assigned(shape: SlicedShape, needed: Sequence[Slot]) -> list[int] | None:
    """Assign the largest member first, each to the smallest free slot that holds it; None if some member finds none."""
    free, found = set(range(len(shape))), {}
    for place in sorted(range(len(needed)), key=lambda place: needed[place].multiply_adds, reverse=True):
        room = [slot for slot in free if shape[slot].holds(needed[place])]
        if not room:
            return None
        found[place] = min(room, key=lambda slot: (shape[slot].multiply_adds, slot))
        free.remove(found[place])
    return [found[place] for place in range(len(needed))]


@dataclass(frozen=True, kw_only=True, eq=False)
class SlotAdapter:
    """Converts between a level's whole network and the part of it that a slot holds."""

    slicing: Slicing
    """The slicing of the level."""
    room: tuple[int, ...] | None
    """The units that the slot has room for, by group; None if it holds the whole network."""

    @cached_property
    def _sliced(self) -> Slicing | None:
        """The slicing to the units in the slot: those that are left, and removed ones in the spare room."""
        if self.room is None:
            return None
        return replace(self.slicing, kept=_filled(self.slicing.units, self.slicing.kept, self.room))

    def masks(self, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert the level's masks to the slot's."""
        there = self._sliced
        if there is None:
            return dict(masks)
        return {name: there.units.slice_tensor(name, mask, there.kept) for name, mask in masks.items()}

    def to_slot(self, state: State) -> State:
        """Convert a state of the whole network to the slot's."""
        return state if self._sliced is None else self._sliced.small_state(state)

    def from_slot(self, state: State) -> State:
        """Convert a state of the slot to the whole network's; removed units are as at the start of the level."""
        whole = state if self._sliced is None else self._sliced.whole_state(state)
        return self.slicing.whole_state(self.slicing.small_state(whole))


def slot_adapters(members: Sequence[Member], shape: Shape, slots: Sequence[int]) -> list[SlotAdapter | None]:
    """An adapter for each member that has lost channels; None for the others."""
    found: list[SlotAdapter | None] = []
    for member, number in zip(members, slots, strict=True):
        slot = shape[number] if shape else None
        room = slot.counts if isinstance(slot, Slot) else None
        found.append(None if member.slicing is None else SlotAdapter(slicing=member.slicing, room=room))
    return found


def _filled(units: Units, kept: Flags, room: Sequence[int]) -> Flags:
    """The units that are left, plus the first removed ones of each group until the room is full."""
    there = kept.copy()
    for group, most in enumerate(room):
        gone = np.flatnonzero((units.groups == group) & ~kept)
        there[gone[: most - int((kept & (units.groups == group)).sum())]] = True
    return there

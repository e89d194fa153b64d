"""The places of the members' channels and tensors inside a pack."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from prunecast.errors import PrunecastError

Places = npt.NDArray[np.int64]
Index = tuple["slice | torch.Tensor | int", ...]
"""What selects one member's part of a packed tensor: its place, slices if contiguous, else an index per element.

An empty one selects all of it."""


class Unpackable(PrunecastError):  # noqa: N818 - what the packer answers, not something that broke
    """A family the packer does not understand; it trains alone, with the same results."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The owners of the channels of one activation: `places[m][k]` is the packed place of channel k of member m.

    Places that no member owns are padding: no weight reads them, so their values never matter.
    """

    size: int
    places: tuple[tuple[int, ...], ...]

    def counts(self) -> tuple[int, ...]:
        """The number of channels every member has here when it is alone."""
        return tuple(len(channels) for channels in self.places)


def side_by_side(counts: Sequence[int], *, multiple: int = 1) -> Layout:
    """Members one after another in slot order, padded at the end to a multiple that suits the hardware."""
    places, start = [], 0
    for count in counts:
        places.append(tuple(range(start, start + count)))
        start += count
    return Layout(size=-(-start // multiple) * multiple, places=tuple(places))


def concatenated(parts: Sequence[Layout]) -> Layout:
    """The layout of a concatenation along channels: every member's channels come from each part in turn."""
    starts = [sum(part.size for part in parts[:k]) for k in range(len(parts))]
    places = tuple(
        tuple(
            start + place for part, start in zip(parts, starts, strict=True) for place in part.places[member]
        )
        for member in range(len(parts[0].places))
    )
    return Layout(size=sum(part.size for part in parts), places=places)


def flattened(layout: Layout, area: int) -> Layout:
    """The layout after flattening: channel c becomes features c·area … c·area + area − 1."""
    places = tuple(
        tuple(place * area + k for place in channels for k in range(area)) for channels in layout.places
    )
    return Layout(size=layout.size * area, places=places)


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """The shape of a packed tensor and, for every member, the index of its part."""

    shape: tuple[int, ...]
    members: tuple[Index, ...]
    groups: int = 1


def vector_blocks(layout: Layout) -> Blocks:
    """One value per channel: biases, and parameters and statistics of batch normalisation."""
    return Blocks(
        shape=(layout.size,), members=tuple((_range(np.array(channels)),) for channels in layout.places)
    )


def weight_blocks(
    inputs: Layout,
    outputs: Layout,
    *,
    kernel: Sequence[int] = (),
    member_groups: Sequence[int] = (),
    smallest_group: int | None = None,
    multiple: int = 1,
) -> Blocks:
    """The block-diagonal weight that carries every member's inputs to its own outputs.

    A member's convolution may itself be grouped: an output then reads only the inputs of its own group. Where
    the members allow it the packed weight is cut into groups of at least `smallest_group` channels, which
    saves the arithmetic of blocks that are zero for sure; None leaves it dense. A group has a multiple of `multiple`
    channels, as matrix units need, unless smaller groups are asked for.
    """
    owners = zip(inputs.places, outputs.places, member_groups or [1] * len(inputs.places), strict=True)
    grids = [_grid(own_inputs, own_outputs, groups) for own_inputs, own_outputs, groups in owners]
    groups = (
        1 if smallest_group is None else _groups(grids, inputs.size, outputs.size, smallest_group, multiple)
    )
    width = inputs.size // groups
    members = tuple(_index(rows, columns % width) for rows, columns in grids)
    return Blocks(shape=(outputs.size, width, *kernel), members=members, groups=groups)


Grid = tuple[Places, Places]


def _grid(inputs: Sequence[int], outputs: Sequence[int], groups: int) -> Grid:
    """Row and column of every element of one member's weight; a row has the inputs of its output's group."""
    per_group = np.array(inputs).reshape(groups, -1)
    group_of_output = np.arange(len(outputs)) // max(1, len(outputs) // groups)
    return np.array(outputs)[:, None], per_group[group_of_output]


def _groups(grids: Sequence[Grid], inputs: int, outputs: int, smallest: int, multiple: int) -> int:
    """The largest number of equal groups, none smaller than asked, that no member's weight crosses."""
    unit = math.gcd(smallest, multiple)
    sizes = [
        (groups, inputs / groups, outputs / groups)
        for groups in range(min(inputs, outputs) // smallest, 1, -1)
    ]
    fitting = (groups for groups, *own in sizes if all(size % unit == 0 for size in own))
    return next((g for g in fitting if _within(grids, inputs // g, outputs // g)), 1)


def _within(grids: Sequence[Grid], inputs: int, outputs: int) -> bool:
    return all(bool(np.all(rows // outputs == columns // inputs)) for rows, columns in grids)


def _index(rows: Places, columns: Places) -> Index:
    """Slices if the block is a rectangle, which makes a member's part a view that is copied in one go."""
    row, column = _range(rows[:, 0]), _range(columns[0])
    same_for_all = bool(np.all(columns == columns[:1]))
    if isinstance(row, slice) and isinstance(column, slice) and same_for_all:
        return row, column
    return torch.from_numpy(rows), torch.from_numpy(columns)


def _range(places: Places) -> slice | torch.Tensor:
    start = int(places[0])
    if np.array_equal(places, np.arange(start, start + len(places))):
        return slice(start, start + len(places))
    return torch.from_numpy(places)

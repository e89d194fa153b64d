"""Where the members' channels and tensors are inside packed tensors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from prunecast.errors import PrunecastError

Places = npt.NDArray[np.int64]
Index = tuple["slice | torch.Tensor | int", ...]
"""An index that selects a member's part of a packed tensor: slices if it is a block, else an index per element.

The empty index selects everything."""


class Unpackable(PrunecastError):  # noqa: N818 - what the packer answers, not something that broke
    """Networks that cannot be packed; they train in another way, with the same results."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The channels of one packed activation: `places[m][k]` is the packed index of channel k of member m.

    Channels of no member are padding; no weight reads them.
    """

    size: int
    places: tuple[tuple[int, ...], ...]

    def counts(self) -> tuple[int, ...]:
        """Each member's number of channels."""
        return tuple(len(channels) for channels in self.places)


def side_by_side(counts: Sequence[int], *, multiple: int = 1) -> Layout:
    """Members one after the other in slot order, padded at the end to a multiple."""
    places, start = [], 0
    for count in counts:
        places.append(tuple(range(start, start + count)))
        start += count
    return Layout(size=-(-start // multiple) * multiple, places=tuple(places))


def concatenated(parts: Sequence[Layout]) -> Layout:
    """The layout of a concatenation along channels: each member has its channels of every part in turn."""
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
    """The shape of a packed tensor, and the index of each member's part."""

    shape: tuple[int, ...]
    members: tuple[Index, ...]
    groups: int = 1


def vector_blocks(layout: Layout) -> Blocks:
    """The blocks of a tensor with one value per channel: a bias, or a parameter or statistic of batch norm."""
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
    """The blocks of a block-diagonal weight: each member's outputs read its own inputs.

    A member's convolution may have groups: then an output reads only the inputs of its group. The packed weight is
    divided into as many groups as the members allow, of at least `smallest_group` channels, to save multiplications by
    zero; None keeps it dense. Groups have a multiple of `multiple` channels, as matrix units need, unless
    `smallest_group` asks for smaller ones.
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
    """Row and column of each element of a member's weight; a row has the inputs of its output's group."""
    per_group = np.array(inputs).reshape(groups, -1)
    group_of_output = np.arange(len(outputs)) // max(1, len(outputs) // groups)
    return np.array(outputs)[:, None], per_group[group_of_output]


def _groups(grids: Sequence[Grid], inputs: int, outputs: int, smallest: int, multiple: int) -> int:
    """The largest number of equal groups of at least this size such that no member's weight crosses a group."""
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
    """Slices if the block is a rectangle, so that a member's part is a view; otherwise two index tensors."""
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

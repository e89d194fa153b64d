"""The region that the configurations of a fit cover, and what lies outside it.

Ranges of single axes are not enough. If shallow networks were trained only on small datasets, a shallow network with
many examples lies within the range of each axis, but nothing like it was measured. So a place is inside if, for every
two axes and both sides of each, some configuration lies at least as far out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from prunecast.laws.findings import AxisNeverVaried
from prunecast.laws.fitted import FittedLaw
from prunecast.laws.points import AXES, Floats

SLACK = 1e-9
"""Relative; values closer than this are the same."""


@lru_cache(maxsize=8)
def measured_sizes(fit: FittedLaw) -> dict[str, Floats]:
    """By axis, the sizes of the configurations."""
    return {axis: np.array([float(getattr(c, axis)) for c in fit.configurations]) for axis in AXES}


@lru_cache(maxsize=8)
def _lowest_density(fit: FittedLaw) -> float:
    return min(c.lowest_density for c in fit.configurations)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """One side of each of two axes, and which places lie further out than every measured configuration."""

    axes: tuple[str, str]
    sides: tuple[int, int]
    """1: so much or more; −1: so much or less"""
    reach: Floats
    """how far the second axis was measured on that side of the place's first; 0 or infinite if nothing was"""
    missed: NDArray[np.bool_]


def gaps(fit: FittedLaw, places: Mapping[str, Floats]) -> Iterator[Gap]:
    """The gaps for every two axes and both sides of each."""
    measured = {axis: np.log(own) for axis, own in measured_sizes(fit).items()}
    with np.errstate(divide="ignore"):
        wanted = {axis: np.log(places[axis]) for axis in AXES if axis in places}
    for (first, second), (side, other) in product(combinations(wanted, 2), product((-1, 1), repeat=2)):
        furthest = _furthest(side * measured[first], other * measured[second], side * wanted[first])
        missed = other * wanted[second] > furthest + SLACK
        yield Gap(axes=(first, second), sides=(side, other), reach=np.exp(other * furthest), missed=missed)


def _furthest(first: Floats, second: Floats, wanted: Floats) -> Floats:
    """The largest `second` among those whose `first` is at least the wanted one; −∞ where there are none."""
    order = np.argsort(first)
    largest = np.append(np.maximum.accumulate(second[order][::-1])[::-1], -np.inf)
    return np.asarray(largest[np.searchsorted(first[order], wanted - SLACK)])


def outside(fit: FittedLaw, places: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether places lie outside what was measured, by the axes that they are given by."""
    return np.asarray(np.logical_or.reduce([gap.missed for gap in gaps(fit, places)]))


def doublings_outside(fit: FittedLaw, places: Mapping[str, Floats]) -> Floats:
    """How far places lie outside the measured region, in doublings; zero inside.

    For both sides of every two axes, this is the shortest way to where a configuration lies at least as far out; the
    longest of these ways counts.
    """
    each, which = np.unique(np.stack(list(places.values())), axis=1, return_inverse=True)
    places = dict(zip(places, each, strict=True))
    furthest = np.zeros(each.shape[1])
    far = np.flatnonzero(outside(fit, places))
    if len(far):
        measured = {axis: np.log2(np.maximum(own, 1e-300)) for axis, own in measured_sizes(fit).items()}
        wanted = {axis: np.log2(np.maximum(values[far], 1e-300)) for axis, values in places.items()}
        for (first, second), (side, other) in product(combinations(places, 2), product((-1, 1), repeat=2)):
            along = np.maximum(side * np.subtract.outer(wanted[first], measured[first]), 0.0)
            across = np.maximum(other * np.subtract.outer(wanted[second], measured[second]), 0.0)
            furthest[far] = np.maximum(furthest[far], np.hypot(along, across).min(axis=1))
    return furthest[which]


def below(fit: FittedLaw, density: Floats) -> NDArray[np.bool_]:
    """Whether densities are lower than any that was measured."""
    return np.asarray(density < _lowest_density(fit) * (1 - SLACK))


def measured_at(fit: FittedLaw, places: Floats) -> npt.NDArray[np.int64]:
    """The index of the configuration measured at each place (depth, width, num_examples), −1 where none was."""
    measured, wanted = (
        np.zeros(len(fit.configurations), dtype=np.int64),
        np.zeros(len(places), dtype=np.int64),
    )
    known = np.ones(len(places), dtype=bool)
    for axis, asked in zip(AXES, places.T, strict=True):
        values, index = np.unique(measured_sizes(fit)[axis], return_inverse=True)
        nearest = _nearest(values, asked)
        known &= np.isclose(asked, values[nearest])
        measured, wanted = measured * len(values) + index, wanted * len(values) + nearest
    order = np.argsort(measured, kind="stable")
    at = np.minimum(np.searchsorted(measured[order], wanted), len(order) - 1)
    return np.where(known & (measured[order][at] == wanted), order[at], -1)


def _nearest(values: Floats, asked: Floats) -> npt.NDArray[np.int64]:
    """The index of the value nearest to each that is asked for, among sorted ones."""
    above = np.clip(np.searchsorted(values, asked), 1, max(1, len(values) - 1))
    above = np.minimum(above, len(values) - 1)
    below = np.maximum(above - 1, 0)
    return np.where(asked - values[below] < values[above] - asked, below, above)


def never_varied(fit: FittedLaw, places: Mapping[str, npt.ArrayLike]) -> Iterator[AxisNeverVaried]:
    """The axes on which places differ from the only measured value."""
    for axis, values in measured_sizes(fit).items():
        if (values == values[0]).all() and not np.allclose(places[axis], values[0]):
            yield AxisNeverVaried(axis=axis, value=float(values[0]))

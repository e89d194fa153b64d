"""What was measured, as a region of depth, width, number of examples and density, and what lies outside it.

An axis alone does not tell: where the shallow networks were trained on small datasets only, a shallow one with many
examples lies between all that was measured on each axis, and yet nothing like it was. So a place counts as inside
where, for every two axes and on either side of both, something was measured at least as far out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from prunecast.laws.points import Floats
from prunecast.laws.result import Fit

AXES = ("depth", "width", "num_examples")
SLACK = 1e-9
"""Relative; values closer than this are the same."""


@dataclass(frozen=True, kw_only=True)
class Gap:
    """One side of each of two axes, and which places lie further out there than anything measured."""

    axes: tuple[str, str]
    sides: tuple[int, int]
    """1: so much or more; −1: so much or less"""
    reach: Floats
    """how far the second axis was measured on that side of the place's first; 0 or infinite where nothing was"""
    missed: NDArray[np.bool_]


def gaps(fit: Fit, asked: Mapping[str, Floats]) -> Iterator[Gap]:
    """Every two of the axes that are asked for, on either side of both."""
    known = {axis: np.log([getattr(c, axis) for c in fit.configurations]) for axis in AXES}
    with np.errstate(divide="ignore"):
        wanted = {axis: np.log(asked[axis]) for axis in AXES if axis in asked}
    for (first, second), (side, other) in product(combinations(wanted, 2), product((-1, 1), repeat=2)):
        furthest = _furthest(side * known[first], other * known[second], side * wanted[first])
        missed = other * wanted[second] > furthest + SLACK
        yield Gap(axes=(first, second), sides=(side, other), reach=np.exp(other * furthest), missed=missed)


def _furthest(first: Floats, second: Floats, asked: Floats) -> Floats:
    """The largest `second` among those whose `first` is at least what is asked; −∞ where there are none."""
    order = np.argsort(first)
    largest = np.append(np.maximum.accumulate(second[order][::-1])[::-1], -np.inf)
    return np.asarray(largest[np.searchsorted(first[order], asked - SLACK)])


def outside(fit: Fit, asked: Mapping[str, Floats]) -> NDArray[np.bool_]:
    """Whether places lie outside what was measured, by the axes that are asked for."""
    return np.asarray(np.logical_or.reduce([gap.missed for gap in gaps(fit, asked)]))


def below(fit: Fit, density: Floats) -> NDArray[np.bool_]:
    """Whether densities are lower than any that was measured."""
    return np.asarray(density < min(c.lowest_density for c in fit.configurations) * (1 - SLACK))

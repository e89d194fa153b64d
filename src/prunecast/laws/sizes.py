"""Weights of networks that were not measured: counted from layers, or interpolated from the table."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Self

import numpy as np

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.laws.fitted import FittedLaw
from prunecast.laws.points import Floats

SAME_COUNT = 1e-3
"""Relative; counts of weights that differ by less are the same."""
EXACT_FIT = 1e-9
"""A polynomial counts as exact if it deviates less than this from every measured count."""


def size_of(fit: FittedLaw, depth: Floats, width: Floats) -> Floats:
    """Prunable weights of networks, in the unit of the law's data.

    If the table's counts are those of a built-in family, its layers are counted. Other networks are interpolated from
    the table.
    """
    places, which = np.unique(np.stack([depth, width], axis=1), axis=0, return_inverse=True)
    size, member = _weights_curve(fit)(*places.T), counted_family(fit)
    if member is not None:
        family, classes = member
        for at, (deep, wide) in enumerate(places.tolist()):
            if deep in FAMILIES[family].depths:
                size[at] = member_counts(family, int(deep), wide, classes)[0]
    return np.asarray(size[which.ravel()])


@lru_cache(maxsize=8)
def counted_family(fit: FittedLaw) -> tuple[str, int] | None:
    """The built-in family whose layers have the weights that the table counts, and its number of classes."""
    family, facts = fit.origin.family, find_dataset(fit.origin.dataset)
    if family not in FAMILIES or facts is None or not facts.num_classes:
        return None
    if not all(c.depth in FAMILIES[family].depths for c in fit.configurations):
        return None
    listed = np.array([c.weights for c in fit.configurations])
    exact = [
        float(member_counts(family, int(c.depth), c.width, facts.num_classes)[0]) for c in fit.configurations
    ]
    return (family, facts.num_classes) if np.allclose(listed, exact, rtol=SAME_COUNT) else None


@lru_cache(maxsize=8)
def _weights_curve(fit: FittedLaw) -> "SizeCurve":
    return SizeCurve.through({(c.depth, c.width): c.weights for c in fit.configurations})


@dataclass(frozen=True, kw_only=True)
class SizeCurve:
    """A count of parameters by depth l and width w: exact at measured sizes and smooth between and around them.

    Layers that repeat with depth and have channels in proportion to width give a polynomial with terms l·w² to 1 and
    coefficients that are not negative. What is left of log(1 + count), for instance where channels are rounded, is
    interpolated with weights 1/distance².
    """

    sizes: Floats
    """log depth and log width of the measured sizes"""
    powers: tuple[tuple[int, int], ...]
    """exponents of depth and width in each term"""
    coefficients: Floats
    left: Floats
    """what the polynomial leaves of log(1 + count) at each measured size"""

    @classmethod
    def through(cls, counts: dict[tuple[float, float], float]) -> Self:
        """The curve through the counts of some sizes."""
        sizes, count = np.array(list(counts), dtype=float), np.array(list(counts.values()), dtype=float)
        powers, coefficients = _polynomial(sizes, count)
        polynomial = _terms(sizes, powers) @ coefficients
        left = np.log1p(count) - np.log1p(polynomial)
        return cls(sizes=np.log(sizes), powers=powers, coefficients=coefficients, left=left)

    def __call__(self, depth: Floats, width: Floats) -> Floats:
        """The count at some sizes."""
        places = np.stack([depth, width], axis=1)
        distance = ((np.log(places)[:, None] - self.sizes) ** 2).sum(axis=2)
        nearness = 1 / np.maximum(distance, 1e-24)
        left = (nearness * self.left).sum(axis=1) / nearness.sum(axis=1)
        polynomial = _terms(places, self.powers) @ self.coefficients
        return np.asarray(np.maximum(np.expm1(np.log1p(polynomial) + left), 0.0))


def _terms(sizes: Floats, powers: tuple[tuple[int, int], ...]) -> Floats:
    """l^a·w^b of every size and term, one row per size."""
    return np.stack(
        [sizes[:, 0] ** of_depth * sizes[:, 1] ** of_width for of_depth, of_width in powers], axis=1
    )


def _polynomial(sizes: Floats, count: Floats) -> tuple[tuple[tuple[int, int], ...], Floats]:
    """The terms and coefficients, none of them negative, with the least relative deviation from the counts.

    Among exact polynomials, the one with the fewest terms is used, so that few sizes give a plausible one.
    """
    scale = 1 / (1 + count)
    best: tuple[tuple[tuple[int, int], ...], Floats] = ((1, 2),), np.zeros(1)
    least = np.inf
    for powers in _possible_terms(sizes):
        terms = _terms(sizes, powers)
        coefficients: Floats = np.linalg.lstsq(terms * scale[:, None], count * scale)[0].astype(float)
        deviation = float(np.abs((terms @ coefficients - count) * scale).max())
        if (coefficients >= 0).all() and deviation < least:
            best, least = (powers, coefficients), deviation
            if deviation < EXACT_FIT:
                break
    return best


def _possible_terms(sizes: Floats) -> Iterator[tuple[tuple[int, int], ...]]:
    """Sets of terms, the smallest first; an axis that does not vary has a single power."""
    deep, wide = (len(np.unique(axis)) > 1 for axis in sizes.T)
    every = [(a, b) for b in ((2, 1, 0) if wide else (2,)) for a in ((1, 0) if deep else (1,))]
    for number in range(1, 1 + min(len(every), len(sizes))):
        yield from combinations(every, number)


@lru_cache(maxsize=1 << 14)
def member_counts(family: str, depth: int, width: float, classes: int) -> tuple[int, int, int]:
    """Prunable weights, other parameters and multiply-adds of one member.

    Families that repeat one block grow by the same step with every depth, so their first members give the others.
    """
    depths = FAMILIES[family].depths
    if isinstance(depths, range) and depth in depths[3:]:
        one, two, three = (np.array(member_counts(family, own, width, classes)) for own in depths[:3])
        if (three - two == two - one).all():
            weights, fixed, multiply_adds = (one + depths.index(depth) * (two - one)).tolist()
            return weights, fixed, multiply_adds
    member = architecture(family, depth=depth, width=width, num_classes=classes)
    return member.weights, member.parameters - member.weights, member.multiply_adds

"""How large a member of a family is, and how its table names networks and sizes.

Counts are exact integers where the family is built in, else what the table says of measured sizes; those of other
sizes are interpolated.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, Self

import numpy as np

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.choice.findings import CountsFromTable, CountsUnknown, SizesNotExact, SizesProportional
from prunecast.laws import AXES, Fit, Floats, Integers, Mask, measured_sizes, size_of

SAME_COUNT = 1e-3
SAME_COST = 1e-6
"""Relative; costs that differ by less are the same."""
EXACT_FIT = 1e-9
"""A polynomial that deviates less than this from every measured count is taken to be exact."""


@dataclass(frozen=True, kw_only=True)
class Naming:
    """Which axes and which unit of size a table gives, so that no sentence names a depth or count that is not there."""

    axes: tuple[str, ...]
    """those of depth, width and num_examples that are columns of the table, or that the question names"""
    largest: float | None = None
    """the size of the largest measured network unpruned, if sizes are only known up to a factor; else None"""

    @property
    def counted(self) -> bool:
        """Whether sizes are counts; else they are shares of the largest measured network."""
        return self.largest is None


def naming(fit: Fit, counter: "Counter", **asked: float | None) -> Naming:
    """How to name the networks of a law; `asked` are values of axes that a question names."""
    known = measured_sizes(fit)
    new = [axis for axis, value in asked.items() if value is not None and value not in known[axis]]
    axes = tuple(axis for axis in AXES if axis in fit.columns or axis in new)
    largest = None if counter.exact else max(c.weights for c in fit.configurations)
    return Naming(axes=axes, largest=largest)


@lru_cache(maxsize=8)
def removes_channels(fit: Fit) -> bool:
    """Whether the multiply-adds that a table counts fall from level to level."""
    curves = [[cost for _, cost in c.costs.get("multiply_adds", ())] for c in fit.configurations]
    return any(curve and max(curve) > min(curve) * (1 + SAME_COST) for curve in curves)


class Arrays:
    """Base of dataclasses whose fields are arrays of one length, or such dataclasses again."""

    def __getitem__(self, at: Integers | Mask | slice) -> Self:
        return replace(self, **{name: value[at] for name, value in vars(self).items()})  # type: ignore[type-var]

    def joined(self, other: Self) -> Self:
        """These entries, then those of another one."""

        def both(one: Any, two: Any) -> Any:
            return one.joined(two) if isinstance(one, Arrays) else np.concatenate([one, two])

        fields = {name: both(value, getattr(other, name)) for name, value in vars(self).items()}
        return replace(self, **fields)  # type: ignore[type-var]


@dataclass(frozen=True, kw_only=True)
class Counts(Arrays):
    """Sizes of unpruned networks, one entry per network; NaN where unknown."""

    weights: Floats
    """prunable weights"""
    fixed: Floats
    """parameters never pruned: biases and normalisation"""
    multiply_adds: Floats
    """per image"""
    dense_size: Floats
    """prunable weights in the unit of the table that the laws were fitted to"""


@dataclass(frozen=True, kw_only=True)
class Counter:
    """Counts for one fit's family."""

    fit: Fit
    family: str | None
    """the built-in family whose layers are counted, or None"""
    classes: int
    exact: bool
    """whether counts are whole numbers of weights; else they are in proportion to l·w²"""
    own_unit: bool
    """whether the laws were fitted to the table's own counts"""
    finding: SizesNotExact | None
    """why the counts are not those of a built-in family; None where they are"""

    def __call__(self, depth: Floats, width: Floats) -> Counts:
        """Count the networks of these depths and widths."""
        scaled = size_of(self.fit, depth, width)
        if self.family is None:
            unknown, nothing = np.full(len(depth), np.nan), np.zeros(len(depth))
            if not self.exact:
                return Counts(weights=scaled, fixed=nothing, multiply_adds=unknown, dense_size=scaled)
            weights: Floats = np.maximum(self._weights(depth, width), 1.0)
            fixed = nothing if self._fixed is None else np.round(self._fixed(depth, width))
            products = unknown if self._products is None else np.round(self._products(depth, width))
            return Counts(weights=weights.round(), fixed=fixed, multiply_adds=products, dense_size=weights)
        rows = [
            member_counts(self.family, int(deep), float(wide), self.classes)
            for deep, wide in zip(depth, width, strict=True)
        ]
        weights, fixed, multiply_adds = np.array(rows, dtype=float).reshape(-1, 3).T
        size = scaled if self.own_unit else weights
        return Counts(weights=weights, fixed=fixed, multiply_adds=multiply_adds, dense_size=size)

    @property
    def complete(self) -> bool:
        """Whether parameters that are never pruned are counted."""
        return self.family is not None or self._fixed is not None

    def interpolated(self, depth: float, width: float) -> bool:
        """Whether this size's counts are neither counted from layers nor the table's own."""
        sizes = [[c.depth, c.width] for c in self.fit.configurations]
        own = np.isclose(sizes, [depth, width]).all(axis=1).any()
        return self.family is None and self.exact and not own

    @cached_property
    def _weights(self) -> "SizeCurve":
        """Prunable weights by depth and width, in the table's unit."""
        return SizeCurve.through({(c.depth, c.width): c.weights for c in self.fit.configurations})

    @cached_property
    def _fixed(self) -> "SizeCurve | None":
        """The other parameters by depth and width; None where the table does not count them."""
        known = {(c.depth, c.width): c.never_pruned for c in self.fit.configurations}
        counted = {size: count for size, count in known.items() if count is not None}
        return SizeCurve.through(counted) if len(counted) == len(known) else None

    @cached_property
    def _products(self) -> "SizeCurve | None":
        """Multiply-adds of unpruned networks by depth and width; None where the table does not count them."""
        known = {(c.depth, c.width): c.costs.get("multiply_adds") for c in self.fit.configurations}
        counted = {size: curve[-1][1] for size, curve in known.items() if curve}
        return SizeCurve.through(counted) if len(counted) == len(known) else None

    def cost_per_run(self, counts: Counts, num_examples: Floats) -> Floats:
        """The cost of one training run of each network, in runs of the costliest measured one."""
        return np.asarray(self._operations(counts) * num_examples / self._costliest)

    def _operations(self, counts: Counts) -> Floats:
        """Multiply-adds per image; where they are not known, prunable weights are used instead."""
        known = not np.isnan(counts.multiply_adds).any()
        return counts.multiply_adds if known else counts.weights

    @cached_property
    def _costliest(self) -> float:
        """Multiply-adds × examples of the costliest measured run."""
        depth, width, examples = (
            np.array([getattr(c, name) for c in self.fit.configurations]) for name in AXES
        )
        return float((self._operations(self(depth, width)) * examples).max())


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

    Of polynomials that are exact the one with fewest terms is taken, so that few sizes give no strange one.
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
    """Sets of terms, the smallest first; an axis that does not vary has one power, which sizes elsewhere follow."""
    deep, wide = (len(np.unique(axis)) > 1 for axis in sizes.T)
    every = [(a, b) for b in ((2, 1, 0) if wide else (2,)) for a in ((1, 0) if deep else (1,))]
    for number in range(1, 1 + min(len(every), len(sizes))):
        yield from combinations(every, number)


def counter(fit: Fit) -> Counter:
    """How to count this fit's networks, with a finding where the counts are not those of a built-in family."""
    family, dataset = fit.origin.family, fit.origin.dataset
    facts = find_dataset(dataset)
    classes = 0 if facts is None else facts.num_classes
    reason = _unknown(fit, classes)
    if reason is None:
        listed = np.array([c.weights for c in fit.configurations])
        exact = [float(member_counts(family, int(c.depth), c.width, classes)[0]) for c in fit.configurations]
        same = np.allclose(listed, exact, rtol=SAME_COUNT)
        if same or not fit.counted:
            return Counter(
                fit=fit, family=family, classes=classes, exact=True, own_unit=not same, finding=None
            )
        reason = CountsUnknown.COUNTS_DIFFER
    finding: SizesNotExact = SizesProportional(reason=reason, family=family, dataset=dataset)
    if fit.counted:
        complete = all(c.never_pruned is not None for c in fit.configurations)
        finding = CountsFromTable(reason=reason, family=family, dataset=dataset, complete=complete)
    return Counter(fit=fit, family=None, classes=0, exact=fit.counted, own_unit=True, finding=finding)


def _unknown(fit: Fit, classes: int) -> CountsUnknown | None:
    """Why the layers of the family cannot be counted; None where they can."""
    family = fit.origin.family
    if family not in FAMILIES:
        return CountsUnknown.FAMILY_NOT_BUILT_IN if family else CountsUnknown.NO_FAMILY
    if not classes:
        return CountsUnknown.CLASSES_UNKNOWN if fit.origin.dataset else CountsUnknown.NO_DATASET
    if not all(c.depth in FAMILIES[family].depths for c in fit.configurations):
        given = "depth" in fit.columns
        return CountsUnknown.DEPTH_NOT_IN_FAMILY if given else CountsUnknown.NO_DEPTHS
    return None


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

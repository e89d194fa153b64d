"""How large the networks of a family are, and how a table names them.

Built-in families are counted exactly. Other counts come from the table and are interpolated between its sizes.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np

from prunecast.catalog import FAMILIES, find_dataset
from prunecast.choice.findings import CountsFromTable, CountsUnknown, SizesNotExact, SizesProportional
from prunecast.laws import (
    AXES,
    Fit,
    Floats,
    Integers,
    Mask,
    SizeCurve,
    counted_family,
    measured_sizes,
    member_counts,
    size_of,
)

SAME_COST = 1e-6
"""Costs that differ by less (relative) count as equal."""


@dataclass(frozen=True, kw_only=True)
class Naming:
    """The axes and the unit of size that a table has, so that no sentence names a depth or count that it lacks."""

    axes: tuple[str, ...]
    """those of depth, width and num_examples that are columns of the table, or that the question names"""
    largest: float | None = None
    """the size of the largest measured network unpruned, if sizes are only known up to a factor; else None"""

    @property
    def counted(self) -> bool:
        """Whether sizes are counts; else they are shares of the largest measured network."""
        return self.largest is None


def naming(fit: Fit, **asked: float | None) -> Naming:
    """How to name the networks of a law; `asked` are values of axes that a question names."""
    known = measured_sizes(fit)
    new = [axis for axis, value in asked.items() if value is not None and value not in known[axis]]
    axes = tuple(axis for axis in AXES if axis in fit.columns or axis in new)
    largest = None if counter(fit).exact else max(c.weights for c in fit.configurations)
    return Naming(axes=axes, largest=largest)


@lru_cache(maxsize=8)
def removes_channels(fit: Fit) -> bool:
    """Whether the table's multiply-adds fall from level to level, as they do if channels are removed."""
    curves = [[cost for _, cost in c.costs.get("multiply_adds", ())] for c in fit.configurations]
    return any(curve and max(curve) > min(curve) * (1 + SAME_COST) for curve in curves)


class Arrays:
    """Base of dataclasses whose fields are arrays of one length, or other dataclasses of this kind."""

    def __getitem__(self, at: Integers | Mask | slice) -> Self:
        return replace(self, **{name: value[at] for name, value in vars(self).items()})  # type: ignore[type-var]

    def joined(self, other: Self) -> Self:
        """These entries followed by those of another one."""

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
            weights: Floats = np.maximum(scaled, 1.0)
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
        """Whether the counts of this size are interpolated."""
        sizes = [[c.depth, c.width] for c in self.fit.configurations]
        own = np.isclose(sizes, [depth, width]).all(axis=1).any()
        return self.family is None and self.exact and not own

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


@lru_cache(maxsize=8)
def counter(fit: Fit) -> Counter:
    """How to count this fit's networks; `finding` says why the counts are not those of a built-in family."""
    family, dataset = fit.origin.family, fit.origin.dataset
    facts = find_dataset(dataset)
    classes = 0 if facts is None else facts.num_classes
    reason = _unknown(fit, classes)
    if reason is None:
        same = counted_family(fit) is not None
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
    """Why the layers of the family cannot be counted; None if they can."""
    family = fit.origin.family
    if family not in FAMILIES:
        return CountsUnknown.FAMILY_NOT_BUILT_IN if family else CountsUnknown.NO_FAMILY
    if not classes:
        return CountsUnknown.CLASSES_UNKNOWN if fit.origin.dataset else CountsUnknown.NO_DATASET
    if not all(c.depth in FAMILIES[family].depths for c in fit.configurations):
        given = "depth" in fit.columns
        return CountsUnknown.DEPTH_NOT_IN_FAMILY if given else CountsUnknown.NO_DEPTHS
    return None

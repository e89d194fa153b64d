"""How large a member of a family is: exact integers where the family is built in, else what the table says."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.laws import Fit
from prunecast.laws.points import Floats
from prunecast.laws.predict import size_of

SAME_COUNT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Sizes of unpruned networks, one entry a network; NaN where nobody knows."""

    weights: Floats
    """prunable weights"""
    fixed: Floats
    """parameters never pruned: biases and normalisation"""
    multiply_adds: Floats
    """of one image"""
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
    note: str | None

    def __call__(self, depth: Floats, width: Floats) -> Counts:
        """Count the networks of these depths and widths."""
        scaled = size_of(self.fit, depth, width)
        if self.family is None:
            unknown = np.full(len(depth), np.nan)
            whole = np.round(scaled) if self.exact else scaled
            return Counts(weights=whole, fixed=np.zeros(len(depth)), multiply_adds=unknown, dense_size=scaled)
        rows = [
            _layers(self.family, int(deep), float(wide), self.classes)
            for deep, wide in zip(depth, width, strict=True)
        ]
        weights, fixed, multiply_adds = np.array(rows, dtype=float).reshape(-1, 3).T
        size = scaled if self.own_unit else weights
        return Counts(weights=weights, fixed=fixed, multiply_adds=multiply_adds, dense_size=size)

    def operations(self, counts: Counts) -> Floats:
        """Multiply-adds of one image; for families not built in, prunable weights stand in for them."""
        return counts.weights if self.family is None else counts.multiply_adds

    @cached_property
    def costliest(self) -> float:
        """Multiply-adds × examples of the costliest measured training."""
        depth, width, examples = (
            np.array([getattr(c, name) for c in self.fit.configurations])
            for name in ("depth", "width", "num_examples")
        )
        return float((self.operations(self(depth, width)) * examples).max())


@lru_cache(maxsize=1 << 14)
def _layers(family: str, depth: int, width: float, classes: int) -> tuple[int, int, int]:
    """Prunable weights, other parameters and multiply-adds of one member."""
    line = _by_depth(family, width, classes)
    if line is not None and depth in FAMILIES[family].depths:
        steps = (depth - line.depth) // line.apart
        weights, fixed, multiply_adds = (first + step * steps for first, step in line.counts)
        return weights, fixed, multiply_adds
    return _counted(family, depth, width, classes)


def _counted(family: str, depth: int, width: float, classes: int) -> tuple[int, int, int]:
    member = architecture(family, depth=depth, width=width, num_classes=classes)
    return member.weights, member.parameters - member.weights, member.multiply_adds


@dataclass(frozen=True, kw_only=True)
class _Line:
    """Counts that grow by the same step with every depth."""

    depth: int
    apart: int
    counts: tuple[tuple[int, int], ...]
    """first value and step of each count"""


@lru_cache(maxsize=1 << 12)
def _by_depth(family: str, width: float, classes: int) -> _Line | None:
    """Families that repeat one block count evenly in depth: four members give all; None where steps differ."""
    depths = FAMILIES[family].depths
    if not isinstance(depths, range):
        return None
    first = [_counted(family, depth, width, classes) for depth in depths[:4]]
    steps = {tuple(b - a for a, b in zip(one, two, strict=True)) for one, two in pairwise(first)}
    if len(steps) > 1:
        return None
    return _Line(depth=depths[0], apart=depths.step, counts=tuple(zip(first[0], steps.pop(), strict=True)))


def counter(fit: Fit) -> Counter:
    """How to count this fit's networks, with a note where the counts are not the family's exact integers."""
    configurations = fit.configurations
    listed = np.array([c.weights for c in configurations])
    proportional = np.allclose(listed, [c.depth * c.width**2 for c in configurations], rtol=1e-9)
    facts = find_dataset(fit.origin.dataset)
    family, classes = fit.origin.family, 0 if facts is None else facts.num_classes
    built_in = family in FAMILIES and classes > 0
    if built_in and all(c.depth in FAMILIES[family].depths for c in configurations):
        exact = np.array([_layers(family, int(c.depth), c.width, classes)[0] for c in configurations])
        if proportional or np.allclose(listed, exact, rtol=SAME_COUNT):
            unit = proportional and not np.allclose(listed, exact, rtol=SAME_COUNT)
            return Counter(fit=fit, family=family, classes=classes, exact=True, own_unit=unit, note=None)
        reason = "the table counts other weights than the built-in family has"
    else:
        reason = _unknown(family, fit.origin.dataset)
    note = (
        f"Sizes are in proportion to l·w²·d, as {reason}; a column `weights` gives real counts."
        if proportional
        else f"Parameter counts are the table's own, between sizes in proportion to l·w², as {reason}; what biases and "
        "normalisation add is not known."
    )
    return Counter(fit=fit, family=None, classes=0, exact=not proportional, own_unit=True, note=note)


def _unknown(family: str, dataset: str) -> str:
    if family not in FAMILIES:
        return f"the family {family!r} is not built in" if family else "the table names no family"
    return f"the number of classes of {dataset!r} is not known" if dataset else "the table names no dataset"

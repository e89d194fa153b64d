"""How large a member of a family is, and how its table names networks and sizes.

Counts are exact integers where the family is built in, else what the table says.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.choice.findings import CountsFromTable, CountsUnknown, SizesNotExact, SizesProportional
from prunecast.laws import AXES, Fit, Floats, size_of

SAME_COUNT = 1e-3


@dataclass(frozen=True, kw_only=True)
class Naming:
    """Which axes and which unit of size a table gives, so that no sentence names a depth or count that nobody gave."""

    axes: tuple[str, ...]
    """those of depth, width and num_examples that are columns of the table, or that the question names"""
    largest: float | None = None
    """the size of the largest measured network unpruned, where sizes are known in proportion only; else None"""

    @property
    def counted(self) -> bool:
        """Whether sizes are counts; else they are shares of the largest measured network."""
        return self.largest is None


def naming(fit: Fit, counter: "Counter", **asked: float | None) -> Naming:
    """How to name the networks of a law; `asked` are values of axes that a question names."""
    known = {axis: [getattr(c, axis) for c in fit.configurations] for axis in AXES}
    axes = tuple(axis for axis in AXES if axis in fit.columns or asked.get(axis) not in (None, *known[axis]))
    largest = None if counter.exact else max(c.weights for c in fit.configurations)
    return Naming(axes=axes, largest=largest)


@dataclass(frozen=True, kw_only=True)
class Counts:
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
            unknown = np.full(len(depth), np.nan)
            whole = np.round(scaled) if self.exact else scaled
            return Counts(weights=whole, fixed=np.zeros(len(depth)), multiply_adds=unknown, dense_size=scaled)
        rows = [
            member_counts(self.family, int(deep), float(wide), self.classes)
            for deep, wide in zip(depth, width, strict=True)
        ]
        weights, fixed, multiply_adds = np.array(rows, dtype=float).reshape(-1, 3).T
        size = scaled if self.own_unit else weights
        return Counts(weights=weights, fixed=fixed, multiply_adds=multiply_adds, dense_size=size)

    def cost_per_run(self, counts: Counts, num_examples: Floats) -> Floats:
        """The cost of one training run of each network, in runs of the costliest measured one."""
        return np.asarray(self._operations(counts) * num_examples / self._costliest)

    def _operations(self, counts: Counts) -> Floats:
        """Multiply-adds per image; for families not built in, prunable weights stand in for them."""
        return counts.weights if self.family is None else counts.multiply_adds

    @cached_property
    def _costliest(self) -> float:
        """Multiply-adds × examples of the costliest measured run."""
        depth, width, examples = (
            np.array([getattr(c, name) for c in self.fit.configurations]) for name in AXES
        )
        return float((self._operations(self(depth, width)) * examples).max())


def counter(fit: Fit) -> Counter:
    """How to count this fit's networks, with a finding where the counts are not those of a built-in family."""
    family, dataset = fit.origin.family, fit.origin.dataset
    facts = find_dataset(dataset)
    classes = 0 if facts is None else facts.num_classes
    reason = _unknown(fit, classes)
    if reason is None:
        listed = np.array([c.weights for c in fit.configurations])
        exact = [member_counts(family, int(c.depth), c.width, classes)[0] for c in fit.configurations]
        same = np.allclose(listed, exact, rtol=SAME_COUNT)
        if same or not fit.counted:
            return Counter(
                fit=fit, family=family, classes=classes, exact=True, own_unit=not same, finding=None
            )
        reason = CountsUnknown.COUNTS_DIFFER
    kind = CountsFromTable if fit.counted else SizesProportional
    finding = kind(reason=reason, family=family, dataset=dataset)
    return Counter(fit=fit, family=None, classes=0, exact=fit.counted, own_unit=True, finding=finding)


def _unknown(fit: Fit, classes: int) -> CountsUnknown | None:
    """Why the layers of the family cannot be counted; None where they can."""
    family = fit.origin.family
    if family not in FAMILIES:
        return CountsUnknown.FAMILY_NOT_BUILT_IN if family else CountsUnknown.NO_FAMILY
    if not classes:
        return CountsUnknown.CLASSES_UNKNOWN if fit.origin.dataset else CountsUnknown.NO_DATASET
    if not all(c.depth in FAMILIES[family].depths for c in fit.configurations):
        return CountsUnknown.DEPTH_NOT_IN_FAMILY
    return None


@lru_cache(maxsize=1 << 14)
def member_counts(family: str, depth: int, width: float, classes: int) -> tuple[int, int, int]:
    """Prunable weights, other parameters and multiply-adds of one member."""
    line = _by_depth(family, width, classes)
    if line is not None and depth in FAMILIES[family].depths:
        steps = (depth - line.depth) // line.apart
        weights, fixed, multiply_adds = (first + step * steps for first, step in line.counts)
        return weights, fixed, multiply_adds
    return _count_layers(family, depth, width, classes)


def _count_layers(family: str, depth: int, width: float, classes: int) -> tuple[int, int, int]:
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
    """The line of counts over depth for families that repeat one block, from four members; None where steps differ."""
    depths = FAMILIES[family].depths
    if not isinstance(depths, range):
        return None
    first = [_count_layers(family, depth, width, classes) for depth in depths[:4]]
    steps = {tuple(b - a for a, b in zip(one, two, strict=True)) for one, two in pairwise(first)}
    if len(steps) > 1:
        return None
    return _Line(depth=depths[0], apart=depths.step, counts=tuple(zip(first[0], steps.pop(), strict=True)))

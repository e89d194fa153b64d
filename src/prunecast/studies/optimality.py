"""Whether the network that the law calls smallest is the smallest measured (section 7 of the paper).

At each error every measured configuration is pruned as far as its measured curve allows, and as far as the law says.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from prunecast.choice.counts import counter
from prunecast.choice.density import inverse
from prunecast.choice.sizes import sizes
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.laws.measured import measured
from prunecast.laws.points import Floats, Integers
from prunecast.studies.curves import FewCurves, SingleCurves, few_curves, single_curves
from prunecast.studies.invariance import crossing
from prunecast.studies.refits import subject
from prunecast.table import Table

ERRORS, CLOSE = 60, 0.25


@dataclass(frozen=True, kw_only=True)
class Smallest:
    """The smallest network at one error, as measured and as the law says, among measured configurations."""

    error: float
    measured_depth: float
    measured_width: float
    measured_nonzero: float
    predicted_depth: float
    predicted_width: float
    predicted_nonzero: float
    regret: float
    """measured size of the configuration that the law picks over the smallest, minus 1"""
    measured_rise: float
    """the error over ε_np of the measured winner: 1 and below is on its low plateau"""
    predicted_rise: float


@dataclass(frozen=True, kw_only=True)
class Start:
    """What it costs to start from another size than the best: mean excess of parameters over all errors."""

    too_large_measured: float
    too_large_predicted: float
    too_small_measured: float
    too_small_predicted: float


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The frontier at each error and the claims about it."""

    law: str
    table: str
    num_examples: float
    frontier: tuple[Smallest, ...]
    largest_miss: float
    """largest |predicted/measured − 1| of the smallest size (the paper: 25%)"""
    median_miss: float
    within_quarter: float
    """share of errors at which the two sizes agree within 25%"""
    largest_regret: float
    mean_regret: float
    lowest_rise_measured: float | None
    """least error/ε_np of a winner that has a larger network beside it; None where every winner is the largest"""
    lowest_rise_predicted: float | None
    start: Start
    single_curves: SingleCurves
    few_curves: FewCurves | None
    notes: tuple[str, ...]


def optimality(table: Table, *, law: str = "eq2", num_examples: float | None = None) -> Optimality:
    """Hold the law's smallest networks against the measured ones, for one number of examples."""
    fitted = fit(table, law=law)
    examples = num_examples or _usual(fitted)
    group = np.array([i for i, c in enumerate(fitted.configurations) if np.isclose(c.num_examples, examples)])
    if len(group) < 2:
        raise PrunecastError(
            f"{table.source}: {len(group)} configurations with {examples:g} examples leave nothing to choose; "
            "train more widths or depths"
        )
    compared = _Compared.of(table, fitted, group, examples)
    if not len(compared.error):
        raise PrunecastError(
            f"{table.source}: no curve with {examples:g} examples crosses an error at which the law has a network "
            "too; prune further"
        )
    frontier = tuple(compared.smallest(fitted, row) for row in range(len(compared.error)))
    miss = np.array([abs(one.predicted_nonzero / one.measured_nonzero - 1) for one in frontier])
    regret = np.array([one.regret for one in frontier])
    one = subject(table, law)
    few = few_curves(one, table.metric)
    return Optimality(
        law=law,
        table=table.source,
        num_examples=examples,
        frontier=frontier,
        largest_miss=float(miss.max()),
        median_miss=float(np.median(miss)),
        within_quarter=float((miss <= CLOSE).mean()),
        largest_regret=float(regret.max()),
        mean_regret=float(regret.mean()),
        lowest_rise_measured=compared.lowest_rise(compared.measured),
        lowest_rise_predicted=compared.lowest_rise(compared.predicted),
        start=compared.start(),
        single_curves=single_curves(table, one),
        few_curves=few,
        notes=tuple(_notes(fitted, few)),
    )


def _usual(fitted: Fit) -> float:
    """The largest number of examples with three configurations, else the one with most."""
    count = Counter(c.num_examples for c in fitted.configurations)
    return max(count, key=lambda examples: (min(count[examples], 3), examples))


def _notes(fitted: Fit, few: FewCurves | None) -> list[str]:
    notes = [
        f"{axis} does not vary in this table: its part of the choice cannot be shown."
        for axis in ("depth", "width")
        if axis not in fitted.axes
    ]
    return notes + ([] if few else ["No set of curves spans the axes of the law at one number of examples."])


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Non-zero weights at each error (rows) of each configuration (columns, from the smallest network on)."""

    error: Floats
    configurations: Integers
    weights: Floats
    unpruned: Floats
    measured: Floats
    """NaN where a curve does not cross the error"""
    predicted: Floats
    """infinite where the law says impossible, NaN where nothing was measured"""

    @classmethod
    def of(cls, table: Table, fitted: Fit, group: Integers, examples: float) -> "_Compared":
        """Prune every configuration to every error."""
        points = measured(table).points
        order = group[np.argsort(points.weights[group], kind="stable")]
        candidates = sizes(fitted, counter(fitted), examples, "measured").as_told()
        candidates = candidates[np.searchsorted(group, order)]
        lowest = min(fitted.configurations[i].lowest_error for i in group)
        errors = np.geomspace(1.02 * lowest, 0.8 * fitted.parameters["high_error"], ERRORS)
        densities = np.array([[crossing(points, int(i), error) for i in order] for error in errors])
        law = inverse(fitted, candidates, np.log(errors))
        law = np.where(np.isfinite(densities), law, np.nan)
        kept = np.isfinite(densities).any(axis=1) & (law <= 1).any(axis=1)
        return cls(
            error=errors[kept],
            configurations=order,
            weights=points.weights[order],
            unpruned=points.unpruned[order],
            measured=(densities * points.weights[order])[kept],
            predicted=(law * points.weights[order])[kept],
        )

    def smallest(self, fitted: Fit, row: int) -> Smallest:
        """The two winners at one error."""
        actual, told = int(np.nanargmin(self.measured[row])), int(np.nanargmin(self.predicted[row]))
        configurations = fitted.configurations
        best, chosen = (configurations[self.configurations[i]] for i in (actual, told))
        return Smallest(
            error=float(self.error[row]),
            measured_depth=best.depth,
            measured_width=best.width,
            measured_nonzero=float(self.measured[row, actual]),
            predicted_depth=chosen.depth,
            predicted_width=chosen.width,
            predicted_nonzero=float(self.predicted[row, told]),
            regret=float(self.measured[row, told] / self.measured[row, actual] - 1),
            measured_rise=float(self.error[row] / self.unpruned[actual]),
            predicted_rise=float(self.error[row] / self.unpruned[told]),
        )

    def lowest_rise(self, sizes: Floats) -> float | None:
        """The least error/ε_np among winners that are not the largest network known at their error."""
        winners = np.nanargmin(sizes, axis=1)
        largest = [int(np.flatnonzero(np.isfinite(row)).max()) for row in sizes]
        inner = winners < np.array(largest)
        return float((self.error / self.unpruned[winners])[inner].min()) if inner.any() else None

    def start(self) -> Start:
        """The mean excess of the next larger and the next smaller network over the best."""
        return Start(
            too_large_measured=_excess(self.measured, self.weights, 1),
            too_large_predicted=_excess(self.predicted, self.weights, 1),
            too_small_measured=_excess(self.measured, self.weights, -1),
            too_small_predicted=_excess(self.predicted, self.weights, -1),
        )


def _excess(sizes: Floats, weights: Floats, step: int) -> float:
    """Mean of (size from the neighbouring network)/(smallest) − 1 over the errors where both are known."""
    rows = np.arange(len(sizes))
    best = np.nanargmin(sizes, axis=1)
    other = best + step
    inside = (other >= 0) & (other < len(weights))
    ratio = sizes[rows[inside], other[inside]] / sizes[rows[inside], best[inside]] - 1
    known = ratio[np.isfinite(ratio)]
    return float(known.mean()) if len(known) else float("nan")

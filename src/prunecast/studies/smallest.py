"""Smallest networks at each error: as measured, and as a law says, among configurations of one number of examples."""

from dataclasses import dataclass

import numpy as np

from prunecast.choice.counts import counter
from prunecast.choice.density import inverse
from prunecast.choice.sizes import sizes
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Integers, Points
from prunecast.studies.invariance import crossings

ERRORS = 60
"""Errors at which networks are compared, from the lowest measured to the high plateau."""


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
class Compared:
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
    def of(cls, points: Points, fitted: Fit, group: Integers, examples: float) -> "Compared":
        """Prune every configuration of a group, those with so many examples, to every error."""
        order = group[np.argsort(points.weights[group], kind="stable")]
        candidates = sizes(fitted, counter(fitted), examples, "measured").as_told()
        candidates = candidates[np.searchsorted(group, order)]
        lowest = min(fitted.configurations[i].lowest_error for i in group)
        errors = np.geomspace(1.02 * lowest, 0.8 * fitted.parameters["high_error"], ERRORS)
        densities = np.stack([crossings(points, int(i), errors) for i in order], axis=1)
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

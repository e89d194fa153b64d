"""Fits of a law to parts of a table, many at once."""

from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import catalogue
from prunecast.laws.forms import PruningForm
from prunecast.laws.judge import relative
from prunecast.laws.measured import Measured, measured
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.solver import solve
from prunecast.table import Table

MAX_ITERATIONS = 60
"""A part of a table may leave parameters open; its fit then drifts along a flat valley and is stopped here."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A table as points, a law, and its best fit to all of them."""

    data: Measured
    points: Points
    form: PruningForm
    theta: Floats
    start: Floats
    """where the fits to parts begin: read off the table's range, not off its fit"""

    @property
    def delta(self) -> Floats:
        """δ of every row under the fit to all rows."""
        return relative(self.form.log_error(self.theta[None], self.points)[0], self.points)


def subject(table: Table, law: str = "eq2", *, seed: int = 0) -> Subject:
    """Fit a law to all of a table, ready to be fitted to parts of it."""
    data = measured(table)
    form, theta = best_fit(law, data.points, table.metric, seed=seed)
    if len(data.points) <= len(form.parameters):
        raise PrunecastError(
            f"{table.source}: {len(data.points)} usable row{'s' * (len(data.points) != 1)} cannot determine "
            f"{len(form.parameters)} parameters; measure more levels or configurations"
        )
    start = catalogue.starts(form, data.points, seed)[0]
    return Subject(data=data, points=data.points, form=form, theta=theta, start=start)


def best_fit(law: str, points: Points, metric: str, *, seed: int = 0) -> tuple[PruningForm, Floats]:
    """A law with the parameters that some points can tell, and the best fit to them from several starts."""
    form = catalogue.build(law, points, metric)
    found = solve(form, points, catalogue.starts(form, points, seed))
    return form, np.asarray(found.theta[int(found.cost.argmin())])


def refit(form: PruningForm, points: Points, start: Floats, member: Mask) -> Floats:
    """The parameters fitted to each row of `member`, a set of points to use; one call for all sets."""
    starts = np.tile(start, (len(member), 1)) if start.ndim == 1 else start
    own, weights = own_points(points, member)
    return solve(form, own, starts, weights=weights, max_iterations=MAX_ITERATIONS).theta


def own_points(points: Points, member: Mask) -> tuple[Points, Floats]:
    """The points of all sets and the weights that each gives them; sets that have few in common get their own."""
    used, longest = np.asarray(member.any(axis=0)), int(member.sum(axis=1).max())
    if 2 * longest < used.sum():
        first = np.argsort(~member, axis=1, kind="stable")[:, :longest]
        return points.packed(first), np.take_along_axis(member, first, axis=1).astype(float)
    return points.rows(used), member[:, used].astype(float)


def deviations(form: PruningForm, theta: Floats, points: Points) -> tuple[Floats, Floats]:
    """μ and σ of δ over all points for each parameter set."""
    delta = np.expm1(np.minimum(form.log_error(theta, points) - points.log_error, 50.0))
    return delta.mean(axis=1), delta.std(axis=1)

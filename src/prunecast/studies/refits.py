"""Fits of a law to all of a table and to parts of it, many at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import (
    DEFAULT_LAW,
    Floats,
    Integers,
    Mask,
    Points,
    PruningForm,
    SingleFit,
    build_form,
    fit_each,
    log_plateau,
    measured,
    region,
    relative,
    solve,
    solve_parts,
    starts,
)
from prunecast.table import Table
from prunecast.text import plural

MAX_ITERATIONS = 60
"""Fits to a part of a table that does not determine all parameters drift along a flat valley; they stop here."""


@dataclass(frozen=True, kw_only=True)
class FullFit:
    """A table as points, a law, and its best fit to all of them."""

    table: Table
    points: Points
    noise: float | None
    """relative standard deviation of one training run, if networks were trained more than once"""
    form: PruningForm
    theta: Floats
    start: Floats
    """where fits to parts start: the law's first guess, not the fit to the whole table"""

    @cached_property
    def delta(self) -> Floats:
        """δ of every row."""
        return deviations(self.form, self.theta, self.points)

    @cached_property
    def singles(self) -> list[SingleFit]:
        """Eq. 1 fitted to each curve alone."""
        return fit_each(self.table)

    @property
    def log_high(self) -> float:
        """The logarithm of the high plateau's error."""
        return log_plateau(self.form, self.theta, self.points)

    def regions(self, points: Points) -> Integers:
        """The region of the law that each row of some points is in."""
        log_error = self.form.log_error(self.theta[None], points)[0]
        return region(log_error, points.log_unpruned[points.configuration], self.log_high)

    def refit(self, member: Mask) -> Floats:
        """The parameters fitted to each part of the points; each row of `member` marks the rows of one part."""
        count = len(member)
        begin = [self.start[None]] * count
        found = solve_parts([self.form] * count, self.points, member, begin, max_iterations=MAX_ITERATIONS)
        return np.array(found)

    def deviations(self, form: PruningForm, theta: Floats) -> tuple[Floats, Floats]:
        """μ and σ of δ over all rows for each parameter set of a form."""
        delta = np.expm1(np.minimum(form.log_error(theta, self.points) - self.points.log_error, 50.0))
        return delta.mean(axis=1), delta.std(axis=1)


@lru_cache(maxsize=4)
def full_fit(table: Table, law: str = DEFAULT_LAW, seed: int = 0) -> FullFit:
    """Fit a law to all of a table; cached, because a report runs several studies of one table."""
    data = measured(table)
    form, theta = best_fit(law, data.points, table.metric, seed=seed)
    if len(data.points) <= len(form.parameters):
        raise PrunecastError(
            f"{table.source}: {plural(len(data.points), 'usable row')} cannot determine "
            f"{len(form.parameters)} parameters; measure more levels or configurations"
        )
    start = starts(form, seed)[0]
    return FullFit(table=table, points=data.points, noise=data.noise, form=form, theta=theta, start=start)


def best_fit(law: str, points: Points, metric: str, *, seed: int = 0) -> tuple[PruningForm, Floats]:
    """A law with the parameters that some points determine, and its best fit to them from several starts."""
    form = build_form(law, points, metric)
    found = solve(form, points, starts(form, seed))
    return form, np.asarray(found.theta[int(found.cost.argmin())])


def best_fits(
    law: str, points: Points, metric: str, parts: Sequence[Integers]
) -> list[tuple[PruningForm, Floats]]:
    """As `best_fit` for several parts of the points, each some configurations, at once."""
    forms = [build_form(law, points.of(part), metric) for part in parts]
    members = np.array([np.isin(points.configuration, part) for part in parts])
    found = solve_parts(forms, points, members, [starts(form) for form in forms])
    return list(zip(forms, found, strict=True))


def deviations(form: PruningForm, theta: Floats, points: Points) -> Floats:
    """δ of every point, by a law with these parameters."""
    return relative(form.log_error(theta[None], points)[0], points)

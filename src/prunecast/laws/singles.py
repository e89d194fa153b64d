"""Eq. 1 fitted to each configuration alone."""

from dataclasses import dataclass

import numpy as np

from prunecast.laws import catalogue
from prunecast.laws.forms import PruningForm, bounds, natural
from prunecast.laws.judge import Deviation, deviation, relative
from prunecast.laws.measured import Replicates, measured
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.solver import solve
from prunecast.table import Table

LEAST_ROWS = 4


@dataclass(frozen=True, kw_only=True)
class SingleFit:
    """Eq. 1 fitted to one configuration alone."""

    depth: float
    width: float
    num_examples: float
    unpruned_error: float
    parameters: dict[str, float]
    deviation: Deviation
    at_bound: tuple[str, ...]


def fit_each(table: Table, *, replicates: Replicates = "mean", seed: int = 0) -> list[SingleFit]:
    """Fit Eq. 1 to each configuration alone, as the paper does first; under four rows it is left out."""
    points = measured(table, replicates).points
    enough = np.flatnonzero(np.bincount(points.configuration) >= LEAST_ROWS)
    return _fit_all(points.of(enough), table.metric, seed) if len(enough) else []


def _fit_all(points: Points, metric: str, seed: int) -> list[SingleFit]:
    """All curves from all their starts in one call; short ones are filled up with rows of no weight."""
    curves = [points.of(np.array([index])) for index in range(points.configurations)]
    forms = [catalogue.build("eq2", one, metric) for one in curves]
    starts = np.array([catalogue.starts(form, one, seed) for form, one in zip(forms, curves, strict=True)])
    tries = starts.shape[1]
    lower, upper = (np.repeat(ends, tries, axis=0) for ends in zip(*map(bounds, forms), strict=True))
    counts = np.array([len(one) for one in curves])
    offset = np.arange(counts.max())
    inside = np.repeat(offset < counts[:, None], tries, axis=0)
    at = np.repeat(points.starts, tries)[:, None] + inside * offset
    found = solve(
        forms[0],
        points.packed(at),
        starts.reshape(len(at), -1),
        weights=inside.astype(float),
        limits=(lower, upper),
    )
    best = found.cost.reshape(-1, tries).argmin(axis=1) + tries * np.arange(len(curves))
    at_bound = found.at_lower | found.at_upper
    return [_single(*own) for own in zip(forms, curves, found.theta[best], at_bound[best], strict=True)]


def _single(form: PruningForm, points: Points, theta: Floats, at_bound: Mask) -> SingleFit:
    names = [parameter.name for parameter in form.parameters]
    return SingleFit(
        depth=float(points.depth[0]),
        width=float(points.width[0]),
        num_examples=float(points.num_examples[0]),
        unpruned_error=float(points.unpruned[0]),
        parameters=dict(zip(names, natural(form, theta).tolist(), strict=True)),
        deviation=deviation(relative(form.log_error(theta[None], points)[0], points)),
        at_bound=tuple(name for name, bound in zip(names, at_bound, strict=True) if bound),
    )

"""How far errors fall below their unpruned value, and the bias this causes in Eq. 2 (appendix H of the paper)."""

from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws import (
    DEFAULT_LAW,
    REGIONS,
    Deviation,
    Floats,
    Points,
    by_group,
    deviation,
    get_law,
    selectable_laws,
)
from prunecast.studies.noise import roughness
from prunecast.studies.refits import best_fit, deviations, full_fit
from prunecast.table import Table

DRAWS = 2000


@dataclass(frozen=True, kw_only=True)
class Dip:
    """One configuration's fall below ε_np."""

    depth: float
    width: float
    num_examples: float
    unpruned_error: float
    lowest_error: float
    density: float
    """where the error is lowest"""
    dip: float
    """1 − lowest/unpruned"""
    by_noise: float
    """the dip that noise alone would show, as the lowest of so many rows"""
    share_below: float
    """share of pruned rows whose error is below ε_np"""


@dataclass(frozen=True, kw_only=True)
class Dips:
    """Dips of all configurations and the bias of Eq. 2, with and without them."""

    table: str
    dips: tuple[Dip, ...]
    noise: float
    """relative standard deviation of one row, from replicates or from the roughness of the curves"""
    eq2: Deviation
    eq2_by_region: dict[str, Deviation]
    without_dips: Deviation
    """Eq. 2 refitted with every error below ε_np raised to it"""
    dip_law: Deviation
    bias: float
    """by how much the dips raise μ of Eq. 2"""


def dips(table: Table) -> Dips:
    """Measure every dip; fit Eq. 2, Eq. 2 to errors without dips, and the law that follows dips."""
    full = full_fit(table)
    points = full.points
    noise = _row_noise(full.noise, points)
    filled = replace(points, error=np.maximum(points.error, points.unpruned[points.configuration]))
    own = deviation(full.delta)
    following = next(name for name in selectable_laws() if get_law(name).dips)
    without = _fitted(DEFAULT_LAW, filled, table.metric)
    return Dips(
        table=table.source,
        dips=tuple(_dip(points, index, noise) for index in range(points.configurations)),
        noise=float(np.sqrt((noise**2).mean())),
        eq2=own,
        eq2_by_region=dict(
            zip(REGIONS, by_group(full.delta, full.regions(points), len(REGIONS)), strict=True)
        ),
        without_dips=without,
        dip_law=_fitted(following, points, table.metric),
        bias=own.mean - without.mean,
    )


def _fitted(law: str, points: Points, metric: str) -> Deviation:
    form, theta = best_fit(law, points, metric)
    return deviation(deviations(form, theta, points))


def _row_noise(single: float | None, points: Points) -> Floats:
    """Relative standard deviation of every row; that of a mean over R replicates is 1/√R of that of one run."""
    if single is None:
        return np.full(len(points), roughness(points))
    return single / np.sqrt(points.replicates)


def _dip(points: Points, index: int, noise: Floats) -> Dip:
    rows = np.flatnonzero((points.configuration == index) & (points.density < 1))
    unpruned = float(points.unpruned[index])
    if not len(rows):
        rows = np.flatnonzero(points.configuration == index)
    lowest = rows[points.error[rows].argmin()]
    flat = int((points.error[rows] < 1.05 * unpruned).sum())
    return Dip(
        depth=float(points.depth[index]),
        width=float(points.width[index]),
        num_examples=float(points.num_examples[index]),
        unpruned_error=unpruned,
        lowest_error=float(points.error[lowest]),
        density=float(points.density[lowest]),
        dip=1 - float(points.error[lowest]) / unpruned,
        by_noise=float(noise[rows].mean()) * _expected_depth(flat),
        share_below=float((points.error[rows] < unpruned).mean()),
    )


def _expected_depth(rows: int) -> float:
    """Mean distance, in standard deviations, of the lowest of some normal numbers from their mean."""
    if rows < 1:
        return 0.0
    draws = np.random.default_rng(0).standard_normal((DRAWS, rows))
    return float(-draws.min(axis=1).mean())

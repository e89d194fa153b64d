"""The spread of replicates, region by region; without replicates, the roughness of curves along their levels."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prunecast.laws.judge import REGIONS, region
from prunecast.laws.measured import measured
from prunecast.laws.points import Floats, Integers, Points
from prunecast.studies.refits import subject
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Scatter of one region; None where the table cannot tell."""

    region: str
    rows: int
    replicates: float | None
    """relative standard deviation of a replicate around the mean of its group (ddof 1)"""
    groups: int
    """groups of at least two replicates"""
    roughness: float | None
    """relative scatter of neighbouring levels around a straight line, an upper bound on the noise of one row"""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Scatter overall and by region of Eq. 2."""

    table: str
    overall: Spread
    regions: tuple[Spread, ...]
    largest_replicates: int
    residual: float
    """σ of the law's own deviations, to hold the noise against"""
    notes: tuple[str, ...]


def noise(table: Table, *, law: str = "eq2") -> Noise:
    """Scatter of replicates around their mean, and of levels around their neighbours."""
    one = subject(table, law)
    means, each = one.points, measured(table, "each").points
    places = _regions(one.form.log_error(one.theta[None], means)[0], means, float(one.theta[0]))
    own = _regions(one.form.log_error(one.theta[None], each)[0], each, float(one.theta[0]))
    groups = pd.DataFrame({"c": each.configuration, "k": each.level, "e": each.error, "r": own})
    counted = groups.groupby(["c", "k"])["e"].transform("size")
    groups["delta"] = groups["e"] / groups.groupby(["c", "k"])["e"].transform("mean") - 1
    several = groups[counted > 1]
    bends = _bends(means)
    everywhere = np.ones(len(means), dtype=bool)
    notes = () if len(several) else (NO_REPLICATES,)
    return Noise(
        table=table.source,
        overall=_spread("all", several, bends, everywhere),
        regions=tuple(
            _spread(name, several[several["r"] == index], bends, places == index)
            for index, name in enumerate(REGIONS)
        ),
        largest_replicates=int(counted.max()),
        residual=float(one.delta.std()),
        notes=notes,
    )


NO_REPLICATES = (
    "No network was trained twice, so this table cannot show the noise of replicates; the roughness of its curves "
    "bounds the noise of single rows from above. A second replicate of a few chains would show it."
)


def _regions(log_error: Floats, points: Points, log_high: float) -> Integers:
    return region(log_error, points.log_unpruned[points.configuration], log_high)


def _spread(name: str, several: pd.DataFrame, bends: Floats, rows: Floats) -> Spread:
    groups = several.groupby(["c", "k"]).ngroups if len(several) else 0
    degrees = len(several) - groups
    own = bends[rows.astype(bool)]
    own = own[np.isfinite(own)]
    return Spread(
        region=name,
        rows=int(rows.sum()),
        replicates=float(np.sqrt((several["delta"] ** 2).sum() / degrees)) if degrees > 0 else None,
        groups=groups,
        roughness=float(np.sqrt((own**2).mean())) if len(own) else None,
    )


def _bends(points: Points) -> Floats:
    """(log ε₋ − 2 log ε + log ε₊)/√6 of every row with a neighbour on both sides: noise, and the curve's own bend."""
    bends = np.full(len(points), np.nan)
    same = points.configuration[2:] == points.configuration[:-2]
    steady = (points.level[2:] - points.level[:-2]) == 2
    second = points.log_error[2:] - 2 * points.log_error[1:-1] + points.log_error[:-2]
    bends[1:-1] = np.where(same & steady, second / np.sqrt(6), np.nan)
    return bends


def roughness(points: Points) -> float:
    """The relative scatter of neighbouring levels over all curves; 0 where no three levels follow each other."""
    bends = _bends(points)
    known = bends[np.isfinite(bends)]
    return float(np.sqrt((known**2).mean())) if len(known) else 0.0

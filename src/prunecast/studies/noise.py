"""The scatter of replicates by region; without replicates, the roughness of curves along their levels."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from prunecast.findings import Finding
from prunecast.laws import DEFAULT_LAW, REGIONS, Floats, Mask, Points, measured
from prunecast.studies.findings import NoNoiseOfReplicates
from prunecast.studies.refits import full_fit
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Scatter of one region; None if the table does not show it."""

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
    """σ of the law's own deviations, to compare the noise with"""
    findings: tuple[Finding, ...]


def noise(table: Table, *, law: str = DEFAULT_LAW) -> Noise:
    """Scatter of replicates around their mean, and of levels around their neighbours."""
    full = full_fit(table, law)
    means, each = full.points, measured(table, "each").points
    regions = full.regions(means)
    groups = pd.DataFrame(
        {"c": each.configuration, "k": each.level, "e": each.error, "r": full.regions(each)}
    )
    counted = groups.groupby(["c", "k"])["e"].transform("size")
    groups["delta"] = groups["e"] / groups.groupby(["c", "k"])["e"].transform("mean") - 1
    several = groups[counted > 1]
    bends = _bends(means)
    everywhere = np.ones(len(means), dtype=bool)
    return Noise(
        table=table.source,
        overall=_spread("all", several, bends, everywhere),
        regions=tuple(
            _spread(name, several[several["r"] == index], bends, regions == index)
            for index, name in enumerate(REGIONS)
        ),
        largest_replicates=int(counted.max()),
        residual=float(full.delta.std()),
        findings=() if len(several) else (NoNoiseOfReplicates(),),
    )


def _spread(name: str, several: pd.DataFrame, bends: Floats, rows: Mask) -> Spread:
    groups = several.groupby(["c", "k"]).ngroups if len(several) else 0
    degrees = len(several) - groups
    own = bends[rows & np.isfinite(bends)]
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
    """The relative scatter of neighbouring levels over all curves; 0 if no three levels follow each other."""
    bends = _bends(points)
    known = bends[np.isfinite(bends)]
    return float(np.sqrt((known**2).mean())) if len(known) else 0.0

"""Is m* an invariant? Slopes of the contours of constant error, and how constant ε↑, γ and p′ are."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.findings import Finding
from prunecast.laws import AXES, Floats, Integers, Points, Role, SingleFit, natural
from prunecast.studies.findings import AxisNotVaried, CurvesAtBounds
from prunecast.studies.refits import FullFit, full_fit
from prunecast.table import Table

CONTOURS, MIDDLE = 12, (0.16, 0.84)
ABOVE_PLATEAU, BELOW_PLATEAU = 1.3, 0.8
"""Contours lie between this multiple of the largest ε_np of their group and this share of ε↑."""


@dataclass(frozen=True, kw_only=True)
class Contours:
    """Contours of constant error in the plane of log density and one log axis, all else equal."""

    axis: str
    count: int
    mean_slope: float
    """∂log d/∂log axis at constant error, measured"""
    std_slope: float
    predicted: float
    """minus the exponent of the axis in the invariant: the slope of contours far from both plateaus"""
    straightness: float
    """mean R² of a straight line through a contour of three or more sizes; NaN if there is none"""


@dataclass(frozen=True, kw_only=True)
class Constancy:
    """One parameter of Eq. 1 over all configurations."""

    parameter: str
    symbol: str
    median: float
    spread: float
    """half the range of its logarithm over the middle 68% of curves, a robust standard deviation; NaN for one curve"""
    joint: float
    """its value in the joint fit"""


@dataclass(frozen=True, kw_only=True)
class Invariance:
    """Slopes of contours and constancy of parameters."""

    table: str
    contours: tuple[Contours, ...]
    constancy: tuple[Constancy, ...]
    configurations: int
    """those whose own fit of Eq. 1 ends within its bounds; the constancy uses only these"""
    at_bounds: int
    findings: tuple[Finding, ...]


def invariance(table: Table) -> Invariance:
    """Measure the contours and fit Eq. 1 to every configuration."""
    full = full_fit(table)
    if not full.form.axes:
        raise PrunecastError(
            f"{table.source}: neither depth nor width varies, so there is no invariant to test"
        )
    inside = [single for single in full.singles if not single.at_bound]
    at_bounds = len(full.singles) - len(inside)
    findings: list[Finding] = [
        AxisNotVaried(axis=axis) for axis in ("depth", "width") if axis not in full.form.axes
    ]
    if at_bounds:
        findings.append(CurvesAtBounds(at_bounds=at_bounds, curves=len(full.singles)))
    return Invariance(
        table=table.source,
        contours=tuple(_contours(full, axis) for axis in full.form.axes),
        constancy=tuple(_constancy(full, inside)),
        configurations=len(inside),
        at_bounds=at_bounds,
        findings=tuple(findings),
    )


def _contours(full: FullFit, axis: str) -> Contours:
    points = full.points
    others = [name for name in AXES if name != axis]
    keys = np.stack([getattr(points, name) for name in others], axis=1)
    slopes, squares = [], []
    for key in np.unique(keys, axis=0):
        group = np.flatnonzero((keys == key).all(axis=1))
        for slope, square in _group(full, group, axis) if len(group) > 1 else ():
            slopes.append(slope)
            squares.append(square)
    exponent = full.theta[full.form.index(full.form.exponents[axis])]
    straight = [square for square in squares if np.isfinite(square)]
    return Contours(
        axis=axis,
        count=len(slopes),
        mean_slope=float(np.mean(slopes)) if slopes else float("nan"),
        std_slope=float(np.std(slopes)) if slopes else float("nan"),
        predicted=-float(exponent),
        straightness=float(np.mean(straight)) if straight else float("nan"),
    )


def _group(full: FullFit, group: Integers, axis: str) -> list[tuple[float, float]]:
    """Slope and R² of each contour through configurations that differ in one axis alone."""
    points, high = full.points, float(np.exp(full.log_high))
    low = ABOVE_PLATEAU * points.unpruned[group].min()
    found = []
    for error in np.geomspace(low, BELOW_PLATEAU * high, CONTOURS) if low < BELOW_PLATEAU * high else ():
        there = [i for i in group if points.unpruned[i] * ABOVE_PLATEAU <= error]
        densities = np.array([crossings(points, int(i), np.array([error]))[0] for i in there])
        known = np.isfinite(densities)
        if known.sum() < 2:
            continue
        x, y = np.log(getattr(points, axis)[there][known]), np.log(densities[known])
        slope, offset = np.polyfit(x, y, 1)
        rest = y - slope * x - offset
        square = 1 - (rest**2).sum() / ((y - y.mean()) ** 2).sum() if len(y) > 2 else np.nan
        found.append((float(slope), float(square)))
    return found


def crossings(points: Points, index: int, errors: Floats) -> Floats:
    """The smallest density at which a measured curve is at most each error, between levels in log-log; else NaN."""
    start = int(points.starts[index])
    rows = slice(start, start + int(np.searchsorted(points.configuration[start:], index + 1)))
    order = np.argsort(points.density[rows])
    density, log_error = np.log(points.density[rows][order]), points.log_error[rows][order]
    # The running minimum falls from sparse to dense: where it first meets an error, so does the curve.
    wanted = np.log(errors)
    first = np.searchsorted(-np.minimum.accumulate(log_error), -wanted)
    inside = (first > 0) & (first < len(log_error))
    at = np.where(inside, first, 1) if len(log_error) > 1 else np.zeros(len(errors), dtype=np.int64)
    rise = log_error[at - 1] - log_error[at]
    share = (log_error[at - 1] - wanted) / np.where(inside, rise, 1.0)
    return np.where(inside, np.exp(density[at - 1] + share * (density[at] - density[at - 1])), np.nan)


def _constancy(full: FullFit, singles: list[SingleFit]) -> Iterator[Constancy]:
    """ε↑, γ and p′ = p · l^φ w^ψ of each curve, with the joint fit's."""
    form = full.form
    joint = natural(form, form.to_plain_depth(full.points) @ full.theta)
    scale = np.zeros(len(singles))
    for axis, exponent in form.exponents.items():
        scale += joint[form.index(exponent)] * np.log([getattr(single, axis) for single in singles])
    for role in (Role.PLATEAU, Role.SLOPE, Role.SCALE) if singles else ():
        at = form.find(role)
        assert at is not None
        own = form.parameters[at]
        logs = np.log([single.parameters[own.name] for single in singles])
        logs = logs + scale if role is Role.SCALE else logs
        yield Constancy(
            parameter=own.name,
            symbol=own.symbol,
            median=float(np.exp(np.median(logs))),
            spread=float(np.diff(np.quantile(logs, MIDDLE))[0] / 2) if len(singles) > 1 else float("nan"),
            joint=float(joint[at]),
        )

"""Is m* an invariant? Slopes of the contours of constant error, and how constant ε↑, γ and p′ are."""

from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import fit_each
from prunecast.laws.eq2 import EXPONENT_OF
from prunecast.laws.forms import natural
from prunecast.laws.points import Floats, Integers, Points
from prunecast.laws.singles import SingleFit
from prunecast.studies.refits import Subject, subject
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
    """minus the exponent of the axis in the invariant: what straight contours far from both plateaus have"""
    straightness: float
    """mean R² of a straight line through a contour of three or more sizes; NaN where there is none"""


@dataclass(frozen=True, kw_only=True)
class Constancy:
    """One parameter of Eq. 1 over all configurations."""

    parameter: str
    median: float
    spread: float
    """half the range of its logarithm over the middle 68% of curves: a standard deviation that outliers leave alone;
    NaN where one curve is all there is"""
    joint: float
    """its value in the joint fit"""


@dataclass(frozen=True, kw_only=True)
class Invariance:
    """Slopes of contours and constancy of parameters."""

    table: str
    contours: tuple[Contours, ...]
    constancy: tuple[Constancy, ...]
    configurations: int
    """those whose own fit of Eq. 1 ends inside its bounds, which the constancy rests on"""
    at_bounds: int
    notes: tuple[str, ...]


def invariance(table: Table) -> Invariance:
    """Measure the contours and fit Eq. 1 to every configuration."""
    one = subject(table)
    if not one.form.axes:
        raise PrunecastError(
            f"{table.source}: neither depth nor width varies, so there is no invariant to test"
        )
    singles = fit_each(table)
    inside = [single for single in singles if not single.at_bound]
    missing = [axis for axis in EXPONENT_OF if axis not in one.form.axes]
    notes = [
        f"{axis.capitalize()} does not vary in this table: its plane cannot be shown." for axis in missing
    ]
    if len(inside) < len(singles):
        notes.append(
            f"{len(singles) - len(inside)} of {len(singles)} curves alone leave a parameter at the bound of its "
            "search; they are left out of the spreads."
        )
    return Invariance(
        table=table.source,
        contours=tuple(_contours(one, axis) for axis in one.form.axes),
        constancy=tuple(_constancy(one, inside)),
        configurations=len(inside),
        at_bounds=len(singles) - len(inside),
        notes=tuple(notes),
    )


def _contours(one: Subject, axis: str) -> Contours:
    points = one.points
    others = [name for name in ("depth", "width", "num_examples") if name != axis]
    keys = np.stack([getattr(points, name) for name in others], axis=1)
    slopes, squares = [], []
    for key in np.unique(keys, axis=0):
        group = np.flatnonzero((keys == key).all(axis=1))
        for slope, square in _group(one, group, axis) if len(group) > 1 else ():
            slopes.append(slope)
            squares.append(square)
    exponent = one.theta[3 + one.form.axes.index(axis)]
    straight = [square for square in squares if np.isfinite(square)]
    return Contours(
        axis=axis,
        count=len(slopes),
        mean_slope=float(np.mean(slopes)) if slopes else float("nan"),
        std_slope=float(np.std(slopes)) if slopes else float("nan"),
        predicted=-float(exponent),
        straightness=float(np.mean(straight)) if straight else float("nan"),
    )


def _group(one: Subject, group: Integers, axis: str) -> list[tuple[float, float]]:
    """Slope and R² of each contour through configurations that differ in one axis alone."""
    points, high = one.points, float(np.exp(one.theta[0]))
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


def _constancy(one: Subject, singles: list[SingleFit]) -> list[Constancy]:
    """ε↑, γ and p′ = p · l^φ w^ψ of each curve, beside the joint fit's."""
    if not singles:
        return []
    joint = natural(one.form, one.theta)
    scale = np.zeros(len(singles))
    for column, axis in enumerate(one.form.axes, start=3):
        scale += joint[column] * np.log([getattr(single, axis) for single in singles])
        if axis == "depth":
            joint[2] *= one.points.reference_depth ** joint[column]
    own = {
        name: np.log([single.parameters[name] for single in singles]) for name in ("high_error", "gamma", "p")
    }
    own["p"] = own["p"] + scale
    return [
        Constancy(
            parameter=name,
            median=float(np.exp(np.median(logs))),
            spread=float(np.diff(np.quantile(logs, MIDDLE))[0] / 2) if len(singles) > 1 else float("nan"),
            joint=float(joint[column]),
        )
        for column, (name, logs) in enumerate(own.items())
    ]

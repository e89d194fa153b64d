"""What charts show, as arrays: measured rows with their estimates, and the predicted curve of every network."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from prunecast.choice import (
    DEFAULT_SIZES,
    Candidates,
    candidates,
    examples_for,
    inside,
    sizes_at,
)
from prunecast.laws import (
    REGIONS,
    Configuration,
    Fit,
    Floats,
    Integers,
    Mask,
    SingleFit,
    average,
    measured,
    region,
)
from prunecast.table import Table

AXES = ("width", "depth", "num_examples")
STEPS = 64
"""Densities a curve is drawn at."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Measured errors (means over replicates) with the law's estimates, one entry a point."""

    depth: Floats
    width: Floats
    num_examples: Floats
    density: Floats
    error: Floats
    estimate: Floats
    region: NDArray[np.str_]
    invariant: Floats
    """m*"""
    size: Floats
    """in the measure that is minimised; NaN where the family's sizes are not known"""
    unpruned: Floats
    replicates: Floats

    def __len__(self) -> int:
        return len(self.error)

    def __getitem__(self, which: Mask) -> "Rows":
        """Some of the rows."""
        return Rows(**{name: values[which] for name, values in vars(self).items()})

    def of(self, network: "Curve | SingleFit") -> Mask:
        """Which rows belong to the configuration of a curve or of a fit to it alone."""
        same = [np.isclose(getattr(self, name), getattr(network, name)) for name in AXES]
        return np.asarray(np.logical_and.reduce(same))

    @property
    def deviation(self) -> Floats:
        """δ = (ε̂ − ε)/ε."""
        return self.estimate / self.error - 1


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One network's predicted error at all densities."""

    depth: float
    width: float
    num_examples: float
    measured: bool
    """whether this size was trained; else its unpruned error is predicted"""
    density: Floats
    error: Floats
    size: Floats
    invariant: Floats


@dataclass(frozen=True, kw_only=True)
class Slice:
    """Networks that differ along one axis alone."""

    axis: str
    held: dict[str, float]
    """the sizes of the other axes; one that is 1 throughout the table is left out"""
    curves: tuple[Curve, ...]
    """ascending along the axis"""

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes along the axis."""
        return tuple(float(getattr(curve, self.axis)) for curve in self.curves)


def measured_rows(table: Table, fit: Fit, minimise: str = "stored") -> Rows:
    """All usable rows, with the law's estimates."""
    points = measured(table).points
    own = points.configuration
    columns = {name: getattr(points, name)[own] for name in ("depth", "width", "num_examples")}
    in_paper_units = replace(points, reference_depth=1.0, reference_examples=fit.reference_examples)
    networks = Candidates.of_points(fit, points)[own]
    return _rows(
        fit,
        **columns,
        density=points.density,
        error=points.error,
        estimate=np.exp(fit.form().log_error(fit.theta()[None], in_paper_units)[0]),
        size=sizes_at(fit, minimise, networks, points.density),
        unpruned=points.unpruned[own],
        replicates=points.replicates,
    )


def fitted_rows(fit: Fit) -> Rows:
    """The rows that a law was fitted to, as stored in the fit, with the law's estimates; without sizes."""
    names = ("depth", "width", "num_examples", "density", "error", "estimate", "unpruned_error", "replicates")
    columns = {name: fit.residuals[name].to_numpy(dtype=float) for name in names}
    unpruned = columns.pop("unpruned_error")
    return _rows(fit, **columns, unpruned=unpruned, size=np.full(len(unpruned), np.nan))


def _rows(fit: Fit, **columns: Floats) -> Rows:
    """Measured rows with their regions and their invariant."""
    regions = region(np.log(columns["estimate"]), np.log(columns["unpruned"]), float(np.log(fit.high_error)))
    sizes = {name: columns[name] for name in ("density", "depth", "width", "num_examples")}
    return Rows(**columns, region=np.array(REGIONS)[regions], invariant=invariant(fit, **sizes))


def invariant(fit: Fit, density: Floats, depth: Floats, width: Floats, num_examples: Floats) -> Floats:
    """m* = density · Π axis^exponent over the axes of the fitted law."""
    sizes = {"depth": depth, "width": width, "num_examples": num_examples / fit.reference_examples}
    powers = [fit.parameters[name] * np.log(sizes[axis]) for axis, name in fit.exponents.items()]
    return np.asarray(density * np.exp(np.sum(powers, axis=0)))


def family(fit: Fit, num_examples: float | None = None, reach: str = DEFAULT_SIZES) -> Candidates:
    """Every candidate size for one number of examples, those measured first."""
    return inside(fit, candidates(fit, examples_for(fit, num_examples), reach), reach)


def curves(
    fit: Fit, members: Candidates, minimise: str = "stored", lowest: float | None = None
) -> list[Curve]:
    """The predicted curves of some sizes, down to a density."""
    if not len(members):
        return []
    floor = lowest if lowest is not None else lowest_density(fit)
    grid = np.geomspace(1.0, floor, STEPS)
    every: Integers = np.repeat(np.arange(len(members)), STEPS)
    spread = members[every]
    density = np.tile(grid, len(members))
    estimated = np.exp(average(fit, spread.points(fit, density)).log_error)
    size = sizes_at(fit, minimise, spread, density)
    star = invariant(fit, density, spread.depth, spread.width, spread.num_examples)
    shaped = [values.reshape(len(members), STEPS) for values in (estimated, size, star)]
    return [
        Curve(
            depth=float(members.depth[i]),
            width=float(members.width[i]),
            num_examples=float(members.num_examples[i]),
            measured=bool(members.measured[i]),
            density=grid,
            error=shaped[0][i],
            size=shaped[1][i],
            invariant=shaped[2][i],
        )
        for i in range(len(members))
    ]


def measured_curves(fit: Fit) -> list[Curve]:
    """The fitted curve of every measured configuration, starting at its measured ε_np."""
    found: list[Curve] = []
    for known in sorted({c.num_examples for c in fit.configurations}, reverse=True):
        members = family(fit, known, "measured")
        members = members[np.flatnonzero(members.measured)]
        found += curves(fit, members.as_measured())
    return found


def lowest_density(fit: Fit) -> float:
    """A little below the lowest density measured."""
    return min(c.lowest_density for c in fit.configurations) * 0.7


def distinct(values: Iterable[float]) -> list[float]:
    """Values once each, in ascending order."""
    return sorted(set(np.asarray(list(values), dtype=float).tolist()))


def slices(fit: Fit, fitted: Sequence[Curve]) -> list[Slice]:
    """A slice along each axis that varies: the one with the most sizes, then with the most levels."""
    return [own for name in AXES if (own := _slice(fit, fitted, name)) is not None]


def _slice(fit: Fit, fitted: Sequence[Curve], name: str) -> Slice | None:
    others = [other for other in AXES if other != name]
    groups: dict[tuple[float, ...], list[Configuration]] = {}
    for one in fit.configurations:
        groups.setdefault(tuple(getattr(one, other) for other in others), []).append(one)

    def worth(place: tuple[float, ...]) -> tuple[float, ...]:
        sizes = {getattr(one, name) for one in groups[place]}
        levels = sum(len(one.curve) for one in groups[place])
        return len(sizes), levels, place[-1], -abs(float(np.log(place[0])))

    best = max(groups, key=worth)
    if worth(best)[0] < 2:
        return None
    held = dict(zip(others, best, strict=True))
    inside = [c for c in fitted if all(getattr(c, other) == value for other, value in held.items())]
    varied = {other for other in others if len({getattr(c, other) for c in fit.configurations}) > 1}
    return Slice(
        axis=name,
        held={other: value for other, value in held.items() if value != 1 or other in varied},
        curves=tuple(sorted(inside, key=lambda curve: float(getattr(curve, name)))),
    )

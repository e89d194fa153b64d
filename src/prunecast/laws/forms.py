"""Functional forms as values: named parameters with bounds, and log ε̂ with its derivatives for many sets of them.

A parameter set lives in the form's inner scale: logarithms where a parameter is positive. `theta` always has
shape (sets, parameters); results have shape (sets, rows).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from prunecast.laws import formulas
from prunecast.laws.dual import Array, Dual
from prunecast.laws.points import Floats, Points

FAR = 50.0
LARGEST = 230.0
"""The logarithm of a parameter is cut here, at 1e100: an interval that is open is still a number."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One free number of a form, with the range it is searched in (in its natural unit)."""

    name: str
    symbol: str
    lower: float
    upper: float
    positive: bool = True

    @property
    def inner_bounds(self) -> tuple[float, float]:
        """The bounds in the inner scale."""
        return (
            (float(np.log(self.lower)), float(np.log(self.upper)))
            if self.positive
            else (self.lower, self.upper)
        )


class Form(Protocol):
    """What the solver needs to know of a functional form."""

    @property
    def name(self) -> str:
        """The word that selects the form on the command line."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The free parameters in the order of theta's columns."""

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """log ε̂ of every parameter set at every row."""

    def stack(self, theta: Floats, points: Points) -> Floats:
        """The derivatives of log ε̂ by the inner parameters, then log ε̂: shape (sets, parameters + 1, rows)."""


def bounds(form: Form) -> tuple[Floats, Floats]:
    """Lower and upper inner bounds of a form's parameters."""
    pairs = np.array([parameter.inner_bounds for parameter in form.parameters])
    return pairs[:, 0], pairs[:, 1]


def natural(form: Form, theta: Floats) -> Floats:
    """Inner parameters in their natural units."""
    positive = np.array([parameter.positive for parameter in form.parameters])
    return np.where(positive, np.exp(np.clip(np.where(positive, theta, 0.0), -LARGEST, LARGEST)), theta)


def inner(form: Form, values: Floats) -> Floats:
    """Natural parameters in the inner scale."""
    positive = np.array([parameter.positive for parameter in form.parameters])
    return np.where(positive, np.log(np.where(positive, values, 1.0)), values)


class PruningForm(Form, Protocol):
    """A form that takes the unpruned error of each configuration and turns it into the error of pruned networks.

    Its first three parameters are log ε↑, log γ, log p′, then come the exponents of `axes` in the invariant.
    """

    @property
    def axes(self) -> tuple[str, ...]:
        """What the invariant contains beside density: depth, width, num_examples."""

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """As for any form; log ε_np, one a configuration, may be given in place of the measured one."""

    def unpruned_slope(self, stack: Floats) -> Floats:
        """∂log ε̂/∂log ε_np of every row."""


def log_scale(form: PruningForm, theta: Floats, points: Points) -> Floats:
    """The logarithm of the invariant's factors beside density, one a configuration."""
    total = np.zeros((1, points.configurations))
    for column, axis in enumerate(form.axes, start=3):
        total = total + theta[:, column : column + 1] * points.log_axes[axis][0]
    return total


def fill(
    form: PruningForm, theta: Floats, points: Points, rows: formulas.PrunedError, height: Floats
) -> Floats:
    """The stack of `formulas.pruned_error`; columns beyond the exponents are left to the caller."""
    gamma = np.exp(theta[:, 1:2])
    stack = np.empty((len(theta), len(form.parameters) + 1, len(points)))
    stack[:, 0] = rows.upper
    np.multiply(rows.log_ratio, gamma / 2, out=stack[:, 1])
    stack[:, 1] -= rows.upper * height
    np.subtract(rows.upper, rows.lower, out=stack[:, 2])
    stack[:, 2] *= gamma
    for column, axis in enumerate(form.axes, start=3):
        np.multiply(stack[:, 2], points.log_axes[axis][1], out=stack[:, column])
        np.negative(stack[:, column], out=stack[:, column])
    stack[:, -1] = rows.log_error
    return stack


@dataclass(frozen=True, kw_only=True)
class Joint:
    """Eq. 2, and with `axes` empty Eq. 1: φ or ψ is left out where depth or width does not vary."""

    parameters: tuple[Parameter, ...]
    axes: tuple[str, ...]
    name: str = "eq2"

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """Log ε̂ of Eq. 2."""
        return np.asarray(self._rows(theta, points, points.log_unpruned)[0].log_error)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The analytic derivatives of `formulas.pruned_error` and log ε̂."""
        rows, height = self._rows(
            theta, points, points.log_unpruned if log_unpruned is None else log_unpruned
        )
        return fill(self, theta, points, rows, points.spread(height))

    def unpruned_slope(self, stack: Floats) -> Floats:
        """∂log ε̂/∂log ε_np = 1 − ∂log ε̂/∂log ε↑, as ε̂ is homogeneous of degree one in (ε_np, ε↑)."""
        return np.asarray(1 - stack[:, 0])

    def _rows(
        self, theta: Floats, points: Points, log_unpruned: Floats
    ) -> tuple[formulas.PrunedError, Floats]:
        """Eq. 2 at every row, and log(ε↑/ε_np) of every configuration."""
        gamma = np.exp(theta[:, 1:2])
        height = theta[:, :1] - log_unpruned
        high, low = formulas.transitions(height, gamma, theta[:, 2:3], log_scale(self, theta, points))
        high, low, log_unpruned = map(points.spread, (high, low, log_unpruned))
        return formulas.pruned_error(log_unpruned, points.inverse_square_density, high, low, gamma), height


@dataclass(frozen=True, kw_only=True)
class DualForm:
    """A form given by one formula in natural parameters, differentiated by dual numbers."""

    name: str
    parameters: tuple[Parameter, ...]
    formula: Callable[[list[Array], Points], Array]
    """log ε̂ from one column per parameter, each of shape (sets, 1)"""

    def _columns(self, theta: Floats) -> list[Floats]:
        """Natural parameters, one column each."""
        return [
            np.exp(theta[:, i : i + 1]) if parameter.positive else theta[:, i : i + 1]
            for i, parameter in enumerate(self.parameters)
        ]

    def _evaluate(self, columns: Sequence[Array], points: Points) -> Array:
        with np.errstate(all="ignore"):
            return self.formula(list(columns), points)

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """Log ε̂ of the form, kept finite far outside the range of sense so that a search can walk back."""
        value = np.broadcast_to(self._evaluate(self._columns(theta), points), (len(theta), len(points)))
        return np.asarray(np.clip(np.nan_to_num(value, nan=FAR), -FAR, FAR))

    def stack(self, theta: Floats, points: Points) -> Floats:
        """The derivatives of the formula by each inner parameter, and log ε̂ as finite as above."""
        columns = self._columns(theta)
        slopes = [c if p.positive else np.ones_like(c) for c, p in zip(columns, self.parameters, strict=True)]
        duals = [Dual(c, {i: slope}) for i, (c, slope) in enumerate(zip(columns, slopes, strict=True))]
        found = self._evaluate(duals, points)
        stack = np.empty((len(theta), len(columns) + 1, len(points)))
        for i in range(len(columns)):
            stack[:, i] = found.slopes.get(i, 0.0)
        stack[:, -1] = np.clip(np.nan_to_num(found.value, nan=FAR), -FAR, FAR)
        return np.nan_to_num(stack, copy=False, nan=0.0, posinf=0.0, neginf=0.0)

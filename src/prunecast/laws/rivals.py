"""The forms Eq. 2 is compared with, each with the bounds of its parameters for the table at hand.

Two tracks: some forms are given the unpruned error of the configuration they predict, as Eq. 2 is; others know only its
depth, width, number of examples and density.
"""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from prunecast.laws import eq2, formulas
from prunecast.laws.dip import dip
from prunecast.laws.dual import Array
from prunecast.laws.forms import DualForm, Form, Parameter
from prunecast.laws.points import Points
from prunecast.laws.words import SYMBOLS

Columns = list[Array]


class Formula(Protocol):
    """A form in m*: its leading parameters, then the exponents of `axes`."""

    def __call__(self, columns: Columns, points: Points, axes: tuple[str, ...]) -> Array:
        """Log ε̂ of every row."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A form and what it is given."""

    form: Form
    title: str
    given_unpruned: bool


def _positive(**ranges: tuple[float, float]) -> tuple[Parameter, ...]:
    return tuple(Parameter(name=name, symbol=name, lower=a, upper=b) for name, (a, b) in ranges.items())


def _exponents(axes: tuple[str, ...]) -> tuple[Parameter, ...]:
    names = (eq2.EXPONENT_OF[axis] for axis in axes)
    return tuple(Parameter(name=n, symbol=SYMBOLS[n], lower=-2.0, upper=6.0, positive=False) for n in names)


def _log_scale(exponents: Columns, points: Points, axes: tuple[str, ...]) -> Array:
    """log(l^φ w^ψ) of every row."""
    total: Array = np.zeros(len(points))
    for exponent, axis in zip(exponents, axes, strict=True):
        total = total + exponent * points.log_axes[axis][1]
    return total


def _lower(columns: Columns, points: Points, axes: tuple[str, ...]) -> Array:
    gamma, p, *exponents = columns
    log_unpruned = points.log_unpruned[points.configuration]
    log_m = np.log(points.density) + _log_scale(exponents, points, axes)
    return formulas.lower_transition(log_unpruned, log_m, -log_unpruned, gamma, np.log(p))


def _adapted(columns: Columns, points: Points, axes: tuple[str, ...]) -> Array:
    high, b, beta, *exponents = columns
    scale = np.exp(-beta * _log_scale(exponents, points, axes))
    unpruned = points.unpruned[points.configuration]
    inside = unpruned / np.sqrt(1 - (unpruned / high) ** 2)
    return formulas.envelope(formulas.adapted_rosenfeld(inside, points.density, b * scale, beta), high, high)


def _power(columns: Columns, points: Points, axes: tuple[str, ...]) -> Array:
    c, gamma, *exponents = columns
    return np.log(c) - gamma * (np.log(points.density) + _log_scale(exponents, points, axes))


def _broken(columns: Columns, points: Points, axes: tuple[str, ...]) -> Array:
    a, b, c0, break_at, c1, sharpness, *exponents = columns
    m = points.density * np.exp(_log_scale(exponents, points, axes))
    return np.log(formulas.broken_power_law(m, a, b, c0, break_at, c1, sharpness))


def _sparse(columns: Columns, points: Points, smallest: float, most: float) -> Array:
    """In units of the smallest network and the largest dataset of the table, which keeps the search in range."""
    nonzero = points.nonzero / smallest
    examples = points.num_examples[points.configuration] / most
    return np.log(formulas.sparse_scaling(points.density, nonzero, examples, *columns))


def rivals(points: Points, metric: str = "error") -> tuple[Rival, ...]:
    """Eq. 2 and its rivals for these points."""
    ours = eq2.eq2(points, metric)
    axes, exponents = ours.axes, _exponents(ours.axes)
    top = float(points.error.max())
    ceiling = 100 * top if metric == "loss" else 1.0

    def form(name: str, formula: Formula, parameters: tuple[Parameter, ...]) -> DualForm:
        return DualForm(name=name, parameters=(*parameters, *exponents), formula=partial(formula, axes=axes))

    lower = form("lower", _lower, _positive(gamma=(0.05, 20.0), p=(1e-8, 10.0)))
    highest_unpruned = float(points.unpruned.max())
    high = (max(top / 2, 1.001 * highest_unpruned), max(ceiling, 1.01 * highest_unpruned))
    adapted = form(
        "rosenfeld-density", _adapted, _positive(high_error=high, b=(1e-8, 10.0), beta=(0.05, 5.0))
    )
    power = form("power", _power, _positive(c=(1e-4, 10 * top), gamma=(0.01, 5.0)))
    slopes = {"c0": (1e-4, 2.0), "break_at": (1e-6, 10.0), "c1": (0.01, 5.0), "sharpness": (0.1, 5.0)}
    broken = form("broken", _broken, _positive(a=(1e-4 * top, top), b=(1e-4 * top, 10 * top), **slopes))
    frantar = DualForm(
        name="frantar",
        parameters=_positive(
            a_s=(1e-6, 10.0),
            b_s=(1e-3, 5.0),
            c_s=(1e-6, 10.0),
            b_n=(1e-3, 3.0),
            a_d=(1e-8, 1.0),
            b_d=(1e-3, 3.0),
            c=(1e-6, 1.0),
        ),
        formula=partial(_sparse, smallest=float(points.weights.min()), most=float(points.num_examples.max())),
    )
    return (
        Rival(form=ours, title="Eq. 2", given_unpruned=True),
        Rival(
            form=dip(points, metric), title="Eq. 2 with a low plateau that sinks (dip)", given_unpruned=True
        ),
        Rival(form=lower, title="lower transition only", given_unpruned=True),
        Rival(form=adapted, title="Rosenfeld 2020, adapted to density", given_unpruned=True),
        Rival(form=broken, title="broken neural scaling law in m*", given_unpruned=False),
        Rival(form=frantar, title="Frantar 2023", given_unpruned=False),
        Rival(form=power, title="power law in m*", given_unpruned=False),
    )

"""The forms that laws are compared with, each with the bounds of its parameters for the table at hand.

There are two tracks: some forms are given the unpruned error of the configuration they predict, as laws are; others
know only its depth, width, number of examples and density.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from prunecast.laws import eq2, formulas
from prunecast.laws.dual import Array
from prunecast.laws.formula_law import Formula
from prunecast.laws.law import Form, Parameter, Role, build_form, get_law, selectable_laws
from prunecast.laws.points import Points
from prunecast.metric import Metric

Values = Mapping[str, Array]
AxisFormula = Callable[[Values, Points, Array], Array]
"""log ε̂ of every row from the parameters, the points and log(l^φ w^ψ)."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A form and what it is given."""

    name: str
    title: str
    form: Form
    given_unpruned: bool
    law: str | None = None
    """the law's name if the form is a law, which is rebuilt for each part of a table"""


def _positive(**ranges: tuple[float, float]) -> tuple[Parameter, ...]:
    return tuple(Parameter(name=name, symbol=name, lower=a, upper=b) for name, (a, b) in ranges.items())


def _in_invariant(
    formula: AxisFormula, parameters: tuple[Parameter, ...], exponents: tuple[Parameter, ...]
) -> Formula:
    """A form in m*: its own parameters, then the exponents of the axes that vary."""

    def evaluated(values: Values, points: Points) -> Array:
        log_scale: Array = np.zeros(len(points))
        for exponent in exponents:
            log_scale = log_scale + values[exponent.name] * points.log_axes[exponent.axis][1]
        return formula(values, points, log_scale)

    return Formula(parameters=(*parameters, *exponents), formula=evaluated)


def _lower(values: Values, points: Points, log_scale: Array) -> Array:
    log_unpruned = points.log_unpruned[points.configuration]
    log_m = np.log(points.density) + log_scale
    return formulas.lower_transition(log_unpruned, log_m, -log_unpruned, values["gamma"], np.log(values["p"]))


def _adapted(values: Values, points: Points, log_scale: Array) -> Array:
    high, beta = values["high_error"], values["beta"]
    unpruned = points.unpruned[points.configuration]
    inside = unpruned / np.sqrt(1 - (unpruned / high) ** 2)
    scaled = values["b"] * np.exp(-beta * log_scale)
    return formulas.envelope(formulas.adapted_rosenfeld(inside, points.density, scaled, beta), high, high)


def _power(values: Values, points: Points, log_scale: Array) -> Array:
    return np.log(values["c"]) - values["gamma"] * (np.log(points.density) + log_scale)


def _broken(values: Values, points: Points, log_scale: Array) -> Array:
    names = ("a", "b", "c0", "break_at", "c1", "sharpness")
    m = points.density * np.exp(log_scale)
    return np.log(formulas.broken_power_law(m, *(values[name] for name in names)))


def _sparse(values: Values, points: Points, smallest: float, most: float) -> Array:
    """In units of the smallest network and the largest dataset of the table, which keeps the search in range."""
    nonzero = points.nonzero / smallest
    examples = points.num_examples[points.configuration] / most
    return np.log(formulas.sparse_scaling(points.density, nonzero, examples, **values))


def rivals(points: Points, metric: str = "error") -> tuple[Rival, ...]:
    """Every selectable law and its rivals for these points."""
    ours, _ = eq2.parameter_ranges(points, metric)
    exponents = tuple(parameter for parameter in ours if parameter.role is Role.EXPONENT)
    top, highest_unpruned = float(points.error.max()), float(points.unpruned.max())
    ceiling = 1.0 if Metric(metric).is_share else 100 * top
    high = (max(top / 2, 1.001 * highest_unpruned), max(ceiling, 1.01 * highest_unpruned))
    slopes = {"c0": (1e-4, 2.0), "break_at": (1e-6, 10.0), "c1": (0.01, 5.0), "sharpness": (0.1, 5.0)}
    lower = _positive(gamma=(0.05, 20.0), p=(1e-8, 10.0))
    adapted = _positive(high_error=high, b=(1e-8, 10.0), beta=(0.05, 5.0))
    broken = _positive(a=(1e-4 * top, top), b=(1e-4 * top, 10 * top), **slopes)
    power = _positive(c=(1e-4, 10 * top), gamma=(0.01, 5.0))
    frantar = Formula(
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

    others = (
        ("lower", "lower transition only", _in_invariant(_lower, lower, exponents), True),
        (
            "rosenfeld-density",
            "Rosenfeld 2020, adapted to density",
            _in_invariant(_adapted, adapted, exponents),
            True,
        ),
        ("broken", "broken neural scaling law in m*", _in_invariant(_broken, broken, exponents), False),
        ("frantar", "Frantar 2023", frantar, False),
        ("power", "power law in m*", _in_invariant(_power, power, exponents), False),
    )
    return (
        *(_law(name, points, metric) for name in selectable_laws()),
        *(
            Rival(name=name, title=title, form=form, given_unpruned=given)
            for name, title, form, given in others
        ),
    )


def _law(name: str, points: Points, metric: str) -> Rival:
    form = build_form(name, points, metric)
    return Rival(name=name, title=get_law(name).title, form=form, given_unpruned=True, law=name)

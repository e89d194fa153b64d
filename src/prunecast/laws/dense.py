"""The dense law of Rosenfeld 2020: unpruned errors from network size, dataset size and depth.

Of two networks with equally many weights, the deeper one may have more or less error, so the size is M·l^δ. δ is
shrunk towards zero: left-out configurations are predicted with the best δ and with δ = 0, and the best δ is multiplied
by its share of the likelihood of both. With few configurations, δ is therefore small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prunecast.laws import formulas
from prunecast.laws.deviations import likelihood_shares
from prunecast.laws.dual import Array
from prunecast.laws.formula_law import Formula
from prunecast.laws.law import Parameter, bounds, inner, natural
from prunecast.laws.points import Floats, Points
from prunecast.laws.solver import Objective, solve, solve_from_best

DENSE_PARAMETERS = ("a", "alpha", "b", "beta", "floor", "ceiling", "eta", "delta")
MOST_REFITS, GROUPS = 256, 10
"""Up to so many configurations, each is left out alone; more are left out in so many groups."""
LOGARITHMIC = Objective(residual="log")
"""Predictions are medians; least squares of relative deviations would lie below them by 3/2 of their variance."""
SPARE = 2
"""No dense law is fitted unless the configurations outnumber the free parameters by this."""
SEARCHES = 32
"""How many random starts the search has."""
DELTAS = (-2.0, 2.0)
"""The range of δ."""


@dataclass(frozen=True, kw_only=True)
class DenseLaw:
    """ε̃ = a·n^−α + b·(M·l^δ)^−β + c∞ and ε̂ = ε₀ ε̃/√(ε̃² + η²), M the prunable weights of the unpruned network."""

    parameters: dict[str, float]
    deviation: float
    """relative rms of predictions with the configuration itself left out"""
    configurations: int
    free: int
    """how many of the parameters were fitted"""

    def predict(self, size: Floats, num_examples: Floats, depth: Floats) -> Floats:
        """Unpruned error of a network with this many weights and layers trained on this many examples."""
        values = {name: np.asarray(value) for name, value in self.parameters.items()}
        given = (np.asarray(own, dtype=float) for own in (size, num_examples, depth))
        return np.asarray(np.exp(_log_error(values, *given)))


def _log_error(values: Mapping[str, Array], size: Array, num_examples: Array, depth: Array) -> Array:
    normalized = formulas.dense_normalized(
        num_examples,
        size * formulas.power(depth, values["delta"]),
        values["a"],
        values["alpha"],
        values["b"],
        values["beta"],
        values["floor"],
    )
    return formulas.envelope(normalized, values["ceiling"], values["eta"])


def _form(points: Points, ceiling: float | None, delta: float | None) -> tuple[Formula, dict[str, float]]:
    """The law with the terms that the data determine: no a·n^−α if n does not vary, ε₀ at chance if that is known.

    Only ε̃/η enters, so η is fixed at 1. δ is free unless it is given.
    """
    several_sizes = np.ptp(points.num_examples) > 0
    ranges = {"b": (1e-4, 1e6), "beta": (0.05, 3.0), "floor": (1e-6, 10.0)}
    fixed = {"eta": 1.0}
    if several_sizes:
        ranges |= {"a": (1e-4, 1e6), "alpha": (0.05, 3.0)}
    else:
        fixed |= {"a": 0.0, "alpha": 1.0}
    if ceiling is None:
        top = float(points.error.max())
        ranges["ceiling"] = (top, 100 * top)
    else:
        fixed["ceiling"] = ceiling
    parameters = [Parameter(name=n, symbol=n, lower=low, upper=high) for n, (low, high) in ranges.items()]
    if delta is None:
        parameters.append(Parameter.exponent("delta", "δ", "depth", lower=DELTAS[0], upper=DELTAS[1]))
    else:
        fixed["delta"] = delta

    def formula(values: Mapping[str, Array], rows: Points) -> Array:
        own = (values[rows.configuration] for values in (rows.weights, rows.num_examples, rows.depth))
        return _log_error({**constants, **values}, *own)

    constants: dict[str, Array] = {name: np.asarray(value) for name, value in fixed.items()}
    return Formula(parameters=tuple(parameters), formula=formula), fixed


def unpruned_rows(points: Points) -> Points:
    """One row per configuration: the unpruned network."""
    count = points.configurations
    return replace(
        points,
        configuration=np.arange(count),
        level=np.zeros(count, dtype=np.int64),
        density=np.ones(count),
        error=points.unpruned,
        replicates=points.unpruned_replicates,
        nonzero=points.weights,
    )


def fit_dense(
    points: Points, chance: float | None, seed: int = 0, near: DenseLaw | None = None
) -> DenseLaw | None:
    """Fit the dense law to the unpruned errors; None if there are too few configurations or sizes.

    The search starts at the law `near`, such as one fitted to more points, or else at random.
    """
    rows = unpruned_rows(points)
    form, fixed = _form(rows, chance, delta=0.0)
    spare = len(rows) - len(form.parameters) - SPARE
    if spare < 0 or np.ptp(np.log(points.weights)) == 0:
        return None
    lower, upper = bounds(form)
    starts = np.random.default_rng(seed).uniform(lower, upper, (SEARCHES, len(lower)))
    if near is not None:
        starts = inner(form, np.array([near.parameters[own.name] for own in form.parameters]))[None]
    plain = _fitted(form, fixed, rows, starts)
    if spare == 0 or np.ptp(points.depth) == 0 or np.ptp(points.width) == 0:
        return plain.law(plain.left_out)
    free = _fitted(*_form(rows, chance, delta=None), rows, np.append(plain.theta, 0.0)[None])
    share = likelihood_shares({"plain": plain.missed, "free": free.missed}, len(rows))["free"]
    delta = share * free.values["delta"]
    law = _fitted(*_form(rows, chance, delta=delta), rows, plain.theta[None])
    left_out = share * free.left_out + (1 - share) * plain.left_out
    return replace(law.law(left_out), free=len(free.theta))


@dataclass(frozen=True, kw_only=True)
class _Fitted:
    """The best parameters of a form of the law."""

    form: Formula
    fixed: dict[str, float]
    rows: Points
    theta: Floats

    @property
    def values(self) -> dict[str, float]:
        """All parameters by name."""
        names = (parameter.name for parameter in self.form.parameters)
        return {**self.fixed, **dict(zip(names, natural(self.form, self.theta).tolist(), strict=True))}

    @cached_property
    def left_out(self) -> Floats:
        """log ε̂ − log ε of each configuration, fitted without it, or without its group if there are many."""
        count = len(self.rows)
        groups = count if count <= MOST_REFITS else GROUPS
        # Neighbours are in different groups, so that all sizes stay in each fit.
        group = np.arange(count) % groups
        without = (group != np.arange(groups)[:, None]).astype(float)
        starts = np.tile(self.theta, (groups, 1))
        refits = solve(self.form, self.rows, starts, weights=without, damping=1e-4, objective=LOGARITHMIC)
        estimates = self.form.log_error(refits.theta, self.rows)[group, np.arange(count)]
        return np.asarray(estimates - self.rows.log_error)

    @property
    def missed(self) -> float:
        """The root mean square of these."""
        return float(np.sqrt((self.left_out**2).mean()))

    def law(self, left_out: Floats) -> DenseLaw:
        """As a law, with deviations of configurations left out."""
        return DenseLaw(
            parameters=self.values,
            deviation=float(np.sqrt((np.expm1(left_out) ** 2).mean())),
            configurations=len(self.rows),
            free=len(self.theta),
        )


def _fitted(form: Formula, fixed: dict[str, float], rows: Points, starts: Floats) -> _Fitted:
    found = solve_from_best(form, rows, starts, objective=LOGARITHMIC)
    return _Fitted(form=form, fixed=fixed, rows=rows, theta=found.theta[found.cost.argmin()])

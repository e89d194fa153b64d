"""The dense law of Rosenfeld 2020: unpruned errors from network size and dataset size."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from prunecast.laws import formulas
from prunecast.laws.dual import Array
from prunecast.laws.formula_law import Formula
from prunecast.laws.law import Parameter, bounds, natural
from prunecast.laws.points import Floats, Points
from prunecast.laws.solver import Objective, solve, solve_from_best

DENSE_PARAMETERS = ("a", "alpha", "b", "beta", "floor", "ceiling", "eta")
MOST_REFITS, GROUPS = 256, 10
"""Configurations up to which each is left out alone; beyond, they are left out in so many groups."""
LOGARITHMIC = Objective(residual="log")
"""Predictions are medians: the least squares of relative deviations would lie 3/2 of their variance below."""
SPARE = 2
"""Configurations beyond the number of free parameters without which no dense law is fitted."""


@dataclass(frozen=True, kw_only=True)
class DenseLaw:
    """ε̃ = a·n^−α + b·M^−β + c∞ and ε̂ = ε₀ ε̃/√(ε̃² + η²), M the prunable weights of the unpruned network."""

    parameters: dict[str, float]
    deviation: float
    """relative rms of predictions with the configuration itself left out"""
    configurations: int
    free: int
    """how many of the parameters were fitted"""

    def predict(self, size: Floats, num_examples: Floats) -> Floats:
        """Unpruned error of a network with this many weights trained on this many examples."""
        values = {name: np.asarray(value) for name, value in self.parameters.items()}
        return np.asarray(
            np.exp(_log_error(values, np.asarray(size, float), np.asarray(num_examples, float)))
        )


def _log_error(values: Mapping[str, Array], size: Array, num_examples: Array) -> Array:
    normalized = formulas.dense_normalized(
        num_examples, size, values["a"], values["alpha"], values["b"], values["beta"], values["floor"]
    )
    return formulas.envelope(normalized, values["ceiling"], values["eta"])


def _form(points: Points, ceiling: float | None) -> tuple[Formula, dict[str, float]]:
    """The law with the terms that the data determine: no a·n^−α where n does not vary, ε₀ at chance where known.

    Only ε̃/η enters, so η and the scale of ε̃ cannot both be determined, and η is fixed at 1.
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
    parameters = tuple(
        Parameter(name=n, symbol=n, lower=low, upper=high) for n, (low, high) in ranges.items()
    )

    def formula(values: Mapping[str, Array], rows: Points) -> Array:
        size, examples = (own[rows.configuration] for own in (rows.weights, rows.num_examples))
        return _log_error({**constants, **values}, size, examples)

    constants: dict[str, Array] = {name: np.asarray(value) for name, value in fixed.items()}
    return Formula(parameters=parameters, formula=formula), fixed


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


def fit_dense(points: Points, chance: float | None, seed: int = 0) -> DenseLaw | None:
    """Fit the dense law to the unpruned errors, or None where there are too few configurations or sizes."""
    rows = unpruned_rows(points)
    form, fixed = _form(rows, chance)
    if len(rows) < len(form.parameters) + SPARE or np.ptp(np.log(points.weights)) == 0:
        return None
    lower, upper = bounds(form)
    starts = np.random.default_rng(seed).uniform(lower, upper, (32, len(lower)))
    found = solve_from_best(form, rows, starts, objective=LOGARITHMIC)
    best = found.theta[found.cost.argmin()]
    left_out = np.expm1(_left_out(form, rows, best) - rows.log_error)
    values = dict(zip((p.name for p in form.parameters), natural(form, best).tolist(), strict=True))
    return DenseLaw(
        parameters={**fixed, **values},
        deviation=float(np.sqrt((left_out**2).mean())),
        configurations=len(rows),
        free=len(values),
    )


def _left_out(form: Formula, rows: Points, best: Floats) -> Floats:
    """log ε of each configuration by the law fitted without it, or without its group where there are many."""
    count = len(rows)
    groups = count if count <= MOST_REFITS else GROUPS
    group = (
        np.arange(count) % groups
    )  # neighbours are in different groups, so that all sizes stay in each fit
    without = (group != np.arange(groups)[:, None]).astype(float)
    refits = solve(
        form, rows, np.tile(best, (groups, 1)), weights=without, damping=1e-4, objective=LOGARITHMIC
    )
    return np.asarray(form.log_error(refits.theta, rows)[group, np.arange(count)])

"""Residuals of a fit, the covariance of its parameters, and information criteria."""

from collections.abc import Collection

import numpy as np
import pandas as pd

from prunecast.laws.fitted import FittedLaw
from prunecast.laws.law import PruningForm
from prunecast.laws.points import AXES, Floats
from prunecast.laws.predictive import evaluate, query

LEAST_VARIANCE = 1e-12
"""Draws that vary less, on the inner scale, count as constant."""


def residuals(fit: FittedLaw) -> pd.DataFrame:
    """The rows that a law was fitted to, with its estimates and the relative deviations (ε̂ − ε)/ε."""
    own = fit.configurations
    counts = [len(one.curve) for one in own]
    columns = {
        name: np.repeat([float(getattr(one, name)) for one in own], counts)
        for name in (*AXES, "unpruned_error", "weights")
    }
    density, error, replicates = np.array([row for one in own for row in one.curve]).T
    points = query(fit, {**columns, "density": density}, columns["unpruned_error"], columns.pop("weights"))
    estimate = np.exp(evaluate(fit, fit.theta()[None], points)[0][0])
    return pd.DataFrame(
        {
            **columns,
            "density": density,
            "replicates": replicates,
            "error": error,
            "estimate": estimate,
            "residual": estimate / error - 1,
        }
    )


def drawn_errors(fit: FittedLaw) -> Floats:
    """Log errors by every draw of the parameters: of each configuration unpruned, and at its lowest density."""
    own = [one for one in fit.configurations for _ in range(2)]
    inputs = {name: np.array([float(getattr(one, name)) for one in own]) for name in AXES}
    inputs["density"] = np.array([row for one in fit.configurations for row in (1.0, one.lowest_density)])
    unpruned, weights = (
        np.array([getattr(one, name) for one in own]) for name in ("unpruned_error", "weights")
    )
    points = query(fit, inputs, unpruned.astype(float), weights.astype(float))
    return fit.form().log_error(np.concatenate([fit.spread.draws, fit.spread.possible]), points)


def covariance(
    form: PruningForm, values: dict[str, float], draws: Floats, fixed: Collection[str]
) -> pd.DataFrame:
    """Covariance in natural units: the draws' covariance on the inner scale times the slopes ∂value/∂inner.

    NaN for a fitted parameter whose draws do not vary, because its search ended at a bound.
    """
    slopes = np.array([values[own.name] if own.positive else 1.0 for own in form.parameters])
    names = list(values)
    found = np.atleast_2d(np.cov(draws, rowvar=False))
    still = np.diag(found) < LEAST_VARIANCE
    found[still], found[:, still] = 0.0, 0.0
    unknown = still & np.array([name not in fixed for name in names])
    found[unknown], found[:, unknown] = np.nan, np.nan
    found = found * np.outer(slopes, slopes)
    return pd.DataFrame(found, index=names, columns=names)


def log_likelihood(residual: Floats) -> float:
    """The largest log-likelihood of relative residuals that are normal: −n/2 · (log(2π·RSS/n) + 1)."""
    count = len(residual)
    return float(-count / 2 * (np.log(2 * np.pi * (residual**2).mean()) + 1))


def aic(residual: Floats, free: int) -> float:
    """Akaike's criterion, 2k − 2·log L; the variance of the noise counts as a parameter."""
    return 2 * (free + 1) - 2 * log_likelihood(residual)


def bic(residual: Floats, free: int) -> float:
    """Schwarz's criterion, k·log n − 2·log L; the variance of the noise counts as a parameter."""
    return float((free + 1) * np.log(len(residual)) - 2 * log_likelihood(residual))

"""Residuals of a fit, the covariance of its parameters, and information criteria."""

import numpy as np
import pandas as pd

from prunecast.laws.fitted import FittedLaw
from prunecast.laws.points import AXES, Floats
from prunecast.laws.predictive import query

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
    estimate = np.exp(fit.form().log_error(fit.theta()[None], points)[0])
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


def covariance(fit: FittedLaw) -> pd.DataFrame:
    """Covariance in natural units: the draws' covariance on the inner scale times the slopes ∂value/∂inner.

    NaN for a fitted parameter whose draws do not vary, because its search ended at a bound.
    """
    names = list(fit.parameters)
    slopes = np.array([fit.parameters[own.name] if own.positive else 1.0 for own in fit.form().parameters])
    found = np.atleast_2d(np.cov(fit.spread.draws, rowvar=False))
    still = np.diag(found) < LEAST_VARIANCE
    found[still], found[:, still] = 0.0, 0.0
    unknown = still & np.array([name not in fit.fixed for name in names])
    found[unknown], found[:, unknown] = np.nan, np.nan
    found = found * np.outer(slopes, slopes)
    return pd.DataFrame(found, index=names, columns=names)


def information_criterion(residual: Floats, free: int, penalty: float) -> float:
    """penalty · k − 2 · log L of normal relative residuals; the variance of the noise counts as a parameter.

    The largest log L is −n/2 · (log(2π·RSS/n) + 1). The penalty is 2 in Akaike's criterion and log n in Schwarz's.
    """
    log_likelihood = -len(residual) / 2 * (np.log(2 * np.pi * (residual**2).mean()) + 1)
    return float(penalty * (free + 1) - 2 * log_likelihood)

"""The whole frontier: the smallest network for each error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunecast.choice.checks import ceiling
from prunecast.choice.counts import counter
from prunecast.choice.density import inverse, least_log_error, smallest_density
from prunecast.choice.naming import Naming, naming
from prunecast.choice.options import line, measured_rows, whole_weights
from prunecast.choice.sizes import DEFAULT_REACH, Sizes, examples
from prunecast.choice.sizes import sizes as networks
from prunecast.choice.source import quantity
from prunecast.choice.within import inside
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Integers
from prunecast.laws.reach import below

ERRORS = 200


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """For each error the smallest network by a law, as arrays; errors nothing reaches are left out."""

    law: str

    minimise: str
    metric: str
    """what `error` means: error, validation_error or loss"""
    error: Floats
    size: Floats
    """in the measure that is minimised"""
    depth: Floats
    width: Floats
    density: Floats
    predicted: NDArray[np.bool_]
    """whether the unpruned error comes from the dense law"""
    extrapolated: NDArray[np.bool_]
    """whether a network lies outside what was measured, as in an answer"""
    least_measured: float | None
    """the least error measured among the candidates, which a law may not go down to; None where none was measured"""
    naming: Naming
    """the axes and the unit of size that the table tells"""


def frontier(
    fit: Fit,
    errors: Floats | None = None,
    *,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = DEFAULT_REACH,
) -> Frontier:
    """Fewest parameters for each error; by default 200 errors from the least possible to ε↑ or chance."""
    how = counter(fit)
    candidates = inside(fit, networks(fit, how, examples(fit, num_examples), sizes), sizes)
    targets = _errors(fit, candidates) if errors is None else np.asarray(errors, dtype=float)
    if not (targets > 0).all():
        raise PrunecastError("errors on a frontier are positive")
    offset, slope = line(minimise, candidates)
    density = inverse(fit, candidates, np.log(targets))
    size = np.where(density <= 1, offset + slope * np.minimum(density, 1.0), np.inf)
    best: Integers = size.argmin(axis=1)
    reached = np.isfinite(size[np.arange(len(targets)), best])
    targets, chosen = targets[reached], candidates[best[reached]]
    exact = smallest_density(fit, chosen, np.log(targets))
    exact = np.where(np.isfinite(exact), exact, density[reached, best[reached]])
    kept = whole_weights(how, chosen, exact, up=True)
    offset, slope = line(minimise, chosen)
    measured = np.exp(measured_rows(fit, candidates).told)
    return Frontier(
        law=fit.law,
        minimise=minimise,
        metric=quantity(fit),
        error=targets,
        size=offset + slope * kept,
        depth=chosen.depth,
        width=chosen.width,
        density=kept,
        predicted=~chosen.measured,
        extrapolated=chosen.outside | below(fit, kept),
        least_measured=float(measured.min()) if len(measured) else None,
        naming=naming(fit, how, num_examples=num_examples),
    )


def _errors(fit: Fit, candidates: Sizes) -> Floats:
    lowest = least_log_error(fit, candidates)
    return np.geomspace(np.exp(lowest) * 1.005, ceiling(fit) * 0.95, ERRORS)

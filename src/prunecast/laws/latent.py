"""The fit behind the intervals: the unpruned error of each configuration is itself unknown.

The paper's fit takes the measured ε_np as exact. It is measured with the same noise as every other error and
shared by all rows of a configuration, which makes intervals that ignore it too narrow. Here log ε_np of each
configuration is a latent number ℓ: its measurement and the pruned errors are observed with noise of one size,

    log ε_np(c) = ℓ_c + noise,    log ε(row) = log ε̂(θ, ℓ_c, row) + noise,

and θ is fitted with every ℓ_c profiled out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunecast.laws.forms import PruningForm, bounds
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.solver import Normal, iterate

INNER_STEPS = 6
"""Gauss-Newton steps for each ℓ; the one-dimensional problems are nearly linear."""
TRUSTED_JACKKNIFE, LEAST_JACKKNIFE = 30, 4
"""From the first number of configurations on the jackknife stands alone; below the second it is not used."""


@dataclass(frozen=True, kw_only=True)
class LatentFit:
    """θ with its covariance, in the form's inner scale."""

    theta: Floats
    covariance: Floats
    degrees: float
    """degrees of freedom of Student's t for the intervals"""
    run: float
    """standard deviation of log ε of a single training around the law"""
    unpruned: float
    """rms distance between measured and latent log ε_np: its noise, and any dip below it"""
    at_bound: Mask
    """parameters that ended at a bound of their search"""
    beyond: Floats
    """their variances if there were no bound; zero for the others, which `covariance` has"""


@dataclass(frozen=True)
class _Reduced:
    """Per configuration, the Gram matrix of (∂θ, residual) with ℓ projected out, and ℓ itself."""

    gram: Floats
    latent: Floats


def _sum(rows: Floats, points: Points) -> Floats:
    return np.add.reduceat(rows, points.starts, axis=-1)


def _profile(form: PruningForm, theta: Floats, points: Points) -> tuple[Floats, Floats, Floats]:
    """The best ℓ for θ, with the stack of derivatives and residuals there and the slope ∂log ε̂/∂ℓ."""
    latent = np.tile(points.log_unpruned, (len(theta), 1))
    for _ in range(INNER_STEPS):
        stack = form.stack(theta, points, latent)
        slope, residual = form.unpruned_slope(stack), stack[:, -1] - points.log_error
        curvature = points.unpruned_replicates + _sum(points.replicates * slope**2, points)
        pull = points.unpruned_replicates * (latent - points.log_unpruned)
        latent = latent - (pull + _sum(points.replicates * slope * residual, points)) / curvature
    stack = form.stack(theta, points, latent)
    slope = form.unpruned_slope(stack)
    stack[:, -1] -= points.log_error
    return latent, stack, slope


def _reduced(form: PruningForm, theta: Floats, points: Points) -> _Reduced:
    latent, stack, slope = _profile(form, theta, points)
    weights, size = points.replicates, stack.shape[1]
    missed = latent - points.log_unpruned
    curvature = points.unpruned_replicates + _sum(weights * slope**2, points)
    cross = _sum(weights * slope[:, None] * stack, points)
    cross[:, -1] += points.unpruned_replicates * missed
    gram = np.empty((len(theta), points.configurations, size, size))
    for i in range(size):
        gram[:, :, i] = _sum(weights * stack[:, i : i + 1] * stack, points).transpose(0, 2, 1)
    gram[:, :, -1, -1] += points.unpruned_replicates * missed**2
    gram -= np.einsum("bic,bjc->bcij", cross, cross) / curvature[:, :, None, None]
    return _Reduced(gram, latent)


def fit_latent(form: PruningForm, points: Points, start: Floats, held: Mask | None = None) -> LatentFit:
    """Fit θ by least squares in log error with a latent ε_np per configuration."""
    rows = points.rows(points.density < 1)
    lower, upper = bounds(form)
    theta = np.clip(np.atleast_2d(start), lower, upper)
    movable = np.ones_like(theta, dtype=bool) if held is None else np.broadcast_to(~held, theta.shape)

    def evaluate(_: NDArray[np.int64], candidate: Floats) -> Normal:
        return Normal(_reduced(form, candidate, rows).gram.sum(axis=1), np.zeros(len(candidate)))

    solution = iterate(
        evaluate, theta, evaluate(np.arange(1), theta), movable, (lower, upper), np.full(1, 1e-4), 1e-7, 100
    )
    at_bound = movable[0] & (solution.at_lower[0] | solution.at_upper[0])
    return _summary(solution.theta[0], _reduced(form, solution.theta, rows), rows, movable[0], at_bound)


def _summary(theta: Floats, reduced: _Reduced, rows: Points, movable: Mask, at_bound: Mask) -> LatentFit:
    free = movable & ~at_bound
    gram = reduced.gram[0]
    degrees = max(1.0, float(len(rows) - free.sum()))
    variance = float(gram[:, -1, -1].sum()) / degrees
    covariance, student = _covariance_of(gram, free, variance, degrees)
    beyond = np.zeros(len(theta))
    if at_bound.any():
        beyond[at_bound] = np.diag(_covariance_of(gram, movable, variance, degrees)[0])[at_bound]
    missed = reduced.latent[0] - rows.log_unpruned
    unpruned = max(float((missed**2).mean()), variance / float(rows.unpruned_replicates.mean()))
    # Log residuals find the median; half the variance of the rows brings the law's height back to the mean.
    corrected = theta.copy()
    corrected[0] += variance / 2 / float(rows.replicates.mean()) if free[0] else 0.0
    return LatentFit(
        theta=corrected,
        covariance=covariance,
        degrees=student,
        run=float(np.sqrt(variance)),
        unpruned=float(np.sqrt(unpruned)),
        at_bound=at_bound,
        beyond=beyond,
    )


def _covariance_of(gram: Floats, free: Mask, variance: float, degrees: float) -> tuple[Floats, float]:
    """The covariance of the free parameters among all, zero elsewhere, and its degrees of freedom."""
    kept = np.flatnonzero(free)
    whole = np.zeros((len(free), len(free)))
    matrices, scores = gram[:, kept[:, None], kept], gram[:, kept, -1]
    whole[np.ix_(kept, kept)], degrees = _covariance(matrices, scores, variance, degrees)
    return whole, degrees


def _covariance(matrices: Floats, scores: Floats, variance: float, degrees: float) -> tuple[Floats, float]:
    """The jackknife's covariance; below 30 configurations widened to what independent noise implies."""
    count = len(matrices)
    independent = variance * np.linalg.pinv(matrices.sum(axis=0), hermitian=True)
    if count < LEAST_JACKKNIFE:
        return independent, degrees
    robust = jackknife(matrices, scores)
    if count < TRUSTED_JACKKNIFE:
        ratio = np.sqrt(np.diag(independent) / np.maximum(np.diag(robust), 1e-300))
        widen = np.maximum(ratio, 1.0)
        robust = robust * np.outer(widen, widen)
    return robust, float(count - 1)


def jackknife(matrices: Floats, scores: Floats) -> Floats:
    """Covariance from leaving out one configuration at a time, to first order.

    Whole configurations are left out, so misfit that a configuration's rows share widens the intervals.
    """
    count = len(matrices)
    total = matrices.sum(axis=0)
    scale = np.sqrt(np.maximum(np.diag(total), 1e-300))
    rest = (total - matrices) / np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    steps = np.linalg.solve(rest, (scores / scale)[:, :, None])[:, :, 0] / scale
    steps = steps - steps.mean(axis=0)
    return np.asarray((count - 1) / count * steps.T @ steps)

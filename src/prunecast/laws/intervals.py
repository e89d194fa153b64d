"""How sure a fit is: the fit behind the intervals, the intervals themselves, and draws of the parameters.

The paper's fit takes the measured ε_np as exact. It is measured with the same noise as every other error and
shared by all rows of a configuration, so intervals that ignore this are too narrow. Here log ε_np of each
configuration is a latent number ℓ: its measurement and the pruned errors are observed with noise of one size,

    log ε_np(c) = ℓ_c + noise,    log ε(row) = log ε̂(θ, ℓ_c, row) + noise,

and θ is fitted with every ℓ_c profiled out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.laws.law import PruningForm, Role, bounds
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.solver import Normal, Objective, Solution, iterate, solve

DRAWS = 400
COVERAGE = 0.95
PROFILED = 60
"""Values between its bounds that a parameter is tried at where its search ends at one of them."""
EXTREME = 2.0
"""The largest error measured may lie above ε↑ by this many standard deviations of its noise."""
INNER_STEPS = 6
"""Gauss-Newton steps for each ℓ; the one-dimensional problems are nearly linear."""
TRUSTED_JACKKNIFE, LEAST_JACKKNIFE = 30, 4
"""From the first number of configurations on the jackknife is used alone; below the second it is not used."""


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
        slope = form.unpruned_slope(theta, points, stack, latent)
        residual = stack[:, -1] - points.log_error
        curvature = points.unpruned_replicates + _sum(points.replicates * slope**2, points)
        pull = points.unpruned_replicates * (latent - points.log_unpruned)
        latent = latent - (pull + _sum(points.replicates * slope * residual, points)) / curvature
    stack = form.stack(theta, points, latent)
    slope = form.unpruned_slope(theta, points, stack, latent)
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
    reduced = _reduced(form, solution.theta, rows)
    return _summary(form, solution.theta[0], reduced, rows, movable[0], at_bound)


def _summary(
    form: PruningForm, theta: Floats, reduced: _Reduced, rows: Points, movable: Mask, at_bound: Mask
) -> LatentFit:
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
    corrected, plateau = theta.copy(), form.find(Role.PLATEAU)
    if plateau is not None and free[plateau]:
        corrected[plateau] += variance / 2 / float(rows.replicates.mean())
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


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """What the data leave open, on the inner scale, with depth divided by the points' reference depth."""

    centre: Floats
    draws: Floats
    """normal draws around the centre; quantiles are Student's t with `degrees`"""
    lower: Floats
    upper: Floats
    degrees: float
    run: float
    """standard deviation of log ε of a single training around the law"""
    unpruned: float
    """standard deviation of a measured log ε_np as the law means it"""


def uncertainty(
    form: PruningForm,
    points: Points,
    theta: Floats,
    held: Mask,
    high_range: tuple[float, float] | None,
    to_plain: Floats,
    objective: Objective,
    seed: int = 0,
) -> Uncertainty:
    """Intervals from the latent fit; an undetermined plateau is spread over `high_range` and the others follow it.

    `to_plain` is the linear map from the inner parameters to those whose intervals are wanted.
    """
    fixed, plateau = held.copy(), form.find(Role.PLATEAU)
    if high_range is not None:
        fixed[plateau] = True
    latent = fit_latent(form, points, theta, fixed)
    lower_bound, upper_bound = bounds(form)
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((DRAWS, len(theta))) @ _root(latent.covariance)
    middle = latent.theta
    if high_range is not None and plateau is not None:
        noise = latent.run / np.sqrt(points.replicates.mean())
        high_range = max(high_range[0] - EXTREME * noise, float(lower_bound[plateau])), high_range[1]
        spread_over = np.linspace(*high_range, DRAWS)
        middle = moved(form, points, theta, held, plateau, spread_over, objective).theta
    draws = np.clip(middle + spread, lower_bound, upper_bound)
    quantile = float(special.stdtrit(latent.degrees, (1 + COVERAGE) / 2))
    if high_range is None:
        whole = latent.covariance + np.diag(latent.beyond)
        reach = quantile * np.sqrt(np.einsum("ij,jk,ik->i", to_plain, whole, to_plain))
        lower, upper = to_plain @ latent.theta - reach, to_plain @ latent.theta + reach
        # A search that ends at its bound has not found the middle of anything: the estimate counts as much.
        lower = np.where(latent.at_bound, np.minimum(lower, to_plain @ theta), lower)
        upper = np.where(latent.at_bound, np.maximum(upper, to_plain @ theta), upper)
    else:
        tails = (1 - COVERAGE) / 2
        lower, upper = np.quantile(
            (middle + spread * quantile / 1.96) @ to_plain.T, [tails, 1 - tails], axis=0
        )
        for column in _at_bound(form, theta, held, plateau):
            possible = _possible(form, points, theta, held, column, objective, quantile) @ to_plain.T
            lower, upper = np.minimum(lower, possible.min(axis=0)), np.maximum(upper, possible.max(axis=0))
        lower[plateau], upper[plateau] = high_range
    # What is open on both sides is said to lie anywhere in the range that is searched.
    open_ended = ((to_plain != 0).sum(axis=1) == 1) & (lower < lower_bound) & (upper > upper_bound)
    lower, upper = np.where(open_ended, lower_bound, lower), np.where(open_ended, upper_bound, upper)
    return Uncertainty(
        centre=draws.mean(axis=0) if high_range is not None else latent.theta,
        draws=draws,
        lower=lower,
        upper=upper,
        degrees=latent.degrees,
        run=latent.run,
        unpruned=latent.unpruned,
    )


def _root(covariance: Floats) -> Floats:
    """The symmetric square root, which is unique: draws are then the same whatever library finds the eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _at_bound(form: PruningForm, theta: Floats, held: Mask, plateau: int | None) -> list[int]:
    """Parameters other than the plateau whose search ends at a bound that means nothing.

    Draws that end there, too, have no width.
    """
    lower, upper = bounds(form)
    ends = ~held & ((theta <= lower) | (theta >= upper))
    return [int(i) for i in np.flatnonzero(ends) if i != plateau and not form.parameters[i].bound_is_known]


def _possible(
    form: PruningForm,
    points: Points,
    theta: Floats,
    held: Mask,
    column: int,
    objective: Objective,
    quantile: float,
) -> Floats:
    """Parameter sets that fit about as well as the best: one is moved between its bounds, the others follow."""
    lower, upper = bounds(form)
    tried = np.append(np.linspace(lower[column], upper[column], PROFILED), theta[column])
    found = moved(form, points, theta, held, column, tried, objective)
    variance = found.cost[-1] / max(1, len(points) - int((~held).sum()))
    return np.asarray(found.theta[found.cost <= found.cost[-1] + quantile**2 * variance])


def moved(
    form: PruningForm,
    points: Points,
    theta: Floats,
    held: Mask,
    column: int,
    values: Floats,
    objective: Objective,
) -> Solution:
    """The point fit with one parameter held at each of some values, the others free."""
    starts = np.tile(theta, (len(values), 1))
    starts[:, column] = values
    fixed = held.copy()
    fixed[column] = True
    return solve(form, points, starts, held=fixed, objective=objective)

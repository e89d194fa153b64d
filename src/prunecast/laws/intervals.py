"""Intervals of a fit's parameters, draws of the parameters, and the fit behind both.

The paper's fit takes the measured ε_np as exact. It is measured with the same noise as every other error and
shared by all rows of a configuration, so intervals that ignore this are too narrow. Here log ε_np of each
configuration is a latent number ℓ: its measurement and the pruned errors are observed with noise of one size,

    log ε_np(c) = ℓ_c + noise,    log ε(row) = log ε̂(θ, ℓ_c, row) + noise,

and θ is fitted with every ℓ_c profiled out.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.laws.law import PruningForm, Role, bounds
from prunecast.laws.points import Floats, Integers, Mask, Points
from prunecast.laws.solver import MANY_ROWS, NormalEquations, Optimum, iterate

DRAWS = 400
COVERAGE = 0.95
NODES = 20
"""Values at which a parameter of a large table is profiled."""
PROFILED = 60
"""Values at which a parameter is tried, between its bounds, if its search ends at a bound."""
EXTREME = 2.0
"""The largest measured error may exceed ε↑ by this many standard deviations of its noise."""
INNER_STEPS = 6
"""Gauss-Newton steps for each ℓ; the one-dimensional problems are nearly linear."""
TRUSTED_JACKKNIFE, LEAST_JACKKNIFE = 30, 4
"""The jackknife alone is used with at least the first number of configurations, and never below the second."""


@dataclass(frozen=True, kw_only=True)
class LatentFit:
    """θ with its covariance, in the form's inner scale."""

    theta: Floats
    covariance: Floats
    degrees: float
    """degrees of freedom of Student's t for the intervals"""
    run: float
    """standard deviation of log ε of a single training run around the law"""
    unpruned: float
    """rms distance between measured and latent log ε_np: its noise, and any dip below it"""
    at_bound: Mask
    """parameters that ended at a bound of their search"""
    bound_variance: Floats
    """their variances if there were no bound; zero for the others, whose variances are in `covariance`"""


@dataclass(frozen=True)
class _Reduced:
    """Per configuration, the Gram matrix of (∂θ, residual) with ℓ projected out, and ℓ itself."""

    gram: Floats
    latent: Floats


def _sum(rows: Floats, points: Points) -> Floats:
    return np.add.reduceat(rows, points.starts, axis=-1)


def _best_latent(form: PruningForm, theta: Floats, points: Points) -> tuple[Floats, Floats, Floats]:
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
    latent, stack, slope = _best_latent(form, theta, points)
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


def fit_latent(form: PruningForm, points: Points, start: Floats, fixed: Mask) -> LatentFit:
    """Fit θ by least squares in log error with a latent ε_np per configuration."""
    rows = points.rows(points.density < 1)
    lower, upper = bounds(form)
    theta = np.clip(start[None], lower, upper)
    free = np.broadcast_to(~fixed, theta.shape)

    def evaluate(_: Integers, candidate: Floats) -> NormalEquations:
        return NormalEquations(_reduced(form, candidate, rows).gram.sum(axis=1), np.zeros(len(candidate)))

    solution = iterate(
        evaluate, theta, evaluate(np.arange(1), theta), free, (lower, upper), np.full(1, 1e-4), 1e-7, 100
    )
    at_bound = free[0] & (solution.at_lower[0] | solution.at_upper[0])
    return _summary(form, solution.theta[0], _reduced(form, solution.theta, rows), rows, free[0], at_bound)


def _summary(
    form: PruningForm, theta: Floats, reduced: _Reduced, rows: Points, free: Mask, at_bound: Mask
) -> LatentFit:
    inside, gram = free & ~at_bound, reduced.gram[0]
    degrees = max(1.0, float(len(rows) - inside.sum()))
    variance = float(gram[:, -1, -1].sum()) / degrees
    covariance, student = _covariance_of(gram, inside, variance, degrees)
    bound_variance = np.zeros(len(theta))
    if at_bound.any():
        bound_variance[at_bound] = np.diag(_covariance_of(gram, free, variance, degrees)[0])[at_bound]
    missed = reduced.latent[0] - rows.log_unpruned
    unpruned = max(float((missed**2).mean()), variance / float(rows.unpruned_replicates.mean()))
    # Log residuals find the median; half the variance of the rows brings the law's height back to the mean.
    corrected, plateau = theta.copy(), form.find(Role.PLATEAU)
    if plateau is not None and inside[plateau]:
        corrected[plateau] += variance / 2 / float(rows.replicates.mean())
    return LatentFit(
        theta=corrected,
        covariance=covariance,
        degrees=student,
        run=float(np.sqrt(variance)),
        unpruned=float(np.sqrt(unpruned)),
        at_bound=at_bound,
        bound_variance=bound_variance,
    )


def _covariance_of(gram: Floats, free: Mask, variance: float, degrees: float) -> tuple[Floats, float]:
    """The covariance of the free parameters among all, zero elsewhere, and its degrees of freedom."""
    kept = np.flatnonzero(free)
    whole = np.zeros((len(free), len(free)))
    matrices, scores = gram[:, kept[:, None], kept], gram[:, kept, -1]
    whole[np.ix_(kept, kept)], degrees = _covariance(matrices, scores, variance, degrees)
    return whole, degrees


def _covariance(matrices: Floats, scores: Floats, variance: float, degrees: float) -> tuple[Floats, float]:
    """The jackknife's covariance; with fewer than 30 configurations, at least that of independent noise."""
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
    """What the data leave open, on the inner scale, with depth in its own unit."""

    centre: Floats
    draws: Floats
    """normal draws around the centre; quantiles are Student's t with `degrees`"""
    lower: Floats
    upper: Floats
    degrees: float
    run: float
    """standard deviation of log ε of a single training run around the law"""
    unpruned: float
    """standard deviation of a measured log ε_np as the law means it"""


def find_uncertainty(
    optimum: Optimum, open_plateau: tuple[float, float] | None, to_plain: Floats, seed: int = 0
) -> Uncertainty:
    """Intervals and draws of the parameters.

    `open_plateau` is the range of log ε↑ where the data do not show the plateau: ε↑ is then spread over it, and the
    other parameters are fitted again. `to_plain` is the linear map to the parameters whose intervals are wanted (see
    `PruningForm.to_plain_depth`).
    """
    form, points = optimum.form, optimum.points
    fixed, plateau = optimum.fixed.copy(), form.find(Role.PLATEAU)
    if open_plateau is not None:
        fixed[plateau] = True
    latent = fit_latent(form, points, optimum.theta, fixed)
    lower_bound, upper_bound = bounds(form)
    noise = np.random.default_rng(seed).standard_normal((DRAWS, len(fixed))) @ _root(latent.covariance)
    quantile = float(special.stdtrit(latent.degrees, (1 + COVERAGE) / 2))
    if open_plateau is None or plateau is None:
        middle = latent.theta
        lower, upper = _symmetric(optimum, latent, to_plain, quantile)
    else:
        margin = EXTREME * latent.run / np.sqrt(points.replicates.mean())
        ends = max(open_plateau[0] - margin, float(lower_bound[plateau])), open_plateau[1]
        middle = _along(optimum, plateau, np.linspace(*ends, DRAWS))
        lower, upper = _over_plateau(optimum, middle, noise, plateau, to_plain, quantile)
        lower[plateau], upper[plateau] = ends
    draws = np.clip(middle + noise, lower_bound, upper_bound)
    centre = latent.theta if open_plateau is None else draws.mean(axis=0)
    # A parameter that is open on both sides may lie anywhere in the range that is searched.
    open_ended = ((to_plain != 0).sum(axis=1) == 1) & (lower < lower_bound) & (upper > upper_bound)
    return Uncertainty(
        centre=to_plain @ centre,
        draws=draws @ to_plain.T,
        lower=np.where(open_ended, lower_bound, lower),
        upper=np.where(open_ended, upper_bound, upper),
        degrees=latent.degrees,
        run=latent.run,
        unpruned=latent.unpruned,
    )


def _along(optimum: Optimum, column: int, values: Floats) -> Floats:
    """The best parameters with one fixed at each value; for a large table, interpolated between some values."""
    if len(optimum.points) <= MANY_ROWS:
        return optimum.profile(column, values).theta
    tried = np.linspace(values[0], values[-1], NODES)
    found = optimum.profile(column, tried).theta
    return np.stack([np.interp(values, tried, own) for own in found.T], axis=1)


def _root(covariance: Floats) -> Floats:
    """The symmetric square root, which is unique: draws are then the same whatever library finds the eigenvectors."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _symmetric(
    optimum: Optimum, latent: LatentFit, to_plain: Floats, quantile: float
) -> tuple[Floats, Floats]:
    """Intervals around the latent fit."""
    covariance = latent.covariance + np.diag(latent.bound_variance)
    half = quantile * np.sqrt(np.einsum("ij,jk,ik->i", to_plain, covariance, to_plain))
    lower, upper = to_plain @ latent.theta - half, to_plain @ latent.theta + half
    # Where a search ends at a bound, the latent fit is not the middle of an interval: the estimate counts as much.
    estimate = to_plain @ optimum.theta
    lower = np.where(latent.at_bound, np.minimum(lower, estimate), lower)
    return lower, np.where(latent.at_bound, np.maximum(upper, estimate), upper)


def _over_plateau(
    optimum: Optimum, middle: Floats, noise: Floats, plateau: int, to_plain: Floats, quantile: float
) -> tuple[Floats, Floats]:
    """Intervals from the fits along the open plateau and the noise around each."""
    tail = (1 - COVERAGE) / 2
    sets = (middle + noise * quantile / 1.96) @ to_plain.T
    lower, upper = np.quantile(sets, [tail, 1 - tail], axis=0)
    for column in _at_bound(optimum, plateau):
        possible = _possible(optimum, column, quantile) @ to_plain.T
        lower, upper = np.minimum(lower, possible.min(axis=0)), np.maximum(upper, possible.max(axis=0))
    return lower, upper


def _at_bound(optimum: Optimum, plateau: int) -> list[int]:
    """Parameters other than the plateau whose search ends at a meaningless bound; their draws have no width."""
    lower, upper = bounds(optimum.form)
    at_bound = ~optimum.fixed & ((optimum.theta <= lower) | (optimum.theta >= upper))
    known = [parameter.bound_is_known for parameter in optimum.form.parameters]
    return [int(i) for i in np.flatnonzero(at_bound) if i != plateau and not known[i]]


def possible_sets(optimum: Optimum, parameters: Iterable[str]) -> Floats:
    """Parameter sets that fit about as well as the best, for parameters that the data do not determine."""
    quantile = float(special.stdtrit(max(1, len(optimum.points) - len(optimum.free)), (1 + COVERAGE) / 2))
    columns = [optimum.form.index(name) for name in parameters]
    found = [_possible(optimum, column, quantile) for column in columns if not optimum.fixed[column]]
    return np.concatenate([np.zeros((0, len(optimum.theta))), *found])


def _possible(optimum: Optimum, column: int, quantile: float) -> Floats:
    """Parameter sets that fit about as well as the best, with one parameter at values all over its range."""
    lower, upper = bounds(optimum.form)
    tried = np.append(np.linspace(lower[column], upper[column], PROFILED), optimum.theta[column])
    found = optimum.profile(column, tried)
    variance = found.cost[-1] / max(1, len(optimum.points) - len(optimum.free))
    return np.asarray(found.theta[found.cost <= found.cost[-1] + quantile**2 * variance])

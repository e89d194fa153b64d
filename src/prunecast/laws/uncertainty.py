"""How sure a fit is: intervals and draws of the parameters, as the paper writes them."""

from dataclasses import dataclass

import numpy as np
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.laws.forms import PruningForm, bounds
from prunecast.laws.identify import LIMITS
from prunecast.laws.latent import fit_latent
from prunecast.laws.points import Floats, Mask, Points
from prunecast.laws.solver import Objective, Solution, solve

DRAWS = 400
COVERAGE = 0.95
PROFILED = 60
"""Values between its bounds that a parameter is tried at where its search ends at one of them."""
EXTREME = 2.0
"""The largest error measured may lie above ε↑ by this many standard deviations of its noise."""


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """What the data leave open; inner scale, depth divided by the points' reference depth."""

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
    to_paper: Floats,
    objective: Objective,
    seed: int = 0,
) -> Uncertainty:
    """Intervals from the latent fit; an undetermined ε↑ is spread over `high_range` and the others follow it.

    `to_paper` is the linear map from the inner parameters to those whose intervals are wanted.
    """
    fixed = held.copy()
    fixed[0] |= high_range is not None
    latent = fit_latent(form, points, theta, fixed)
    lower_bound, upper_bound = bounds(form)
    rng = np.random.default_rng(seed)
    spread = rng.standard_normal((DRAWS, len(theta))) @ _root(latent.covariance)
    middle = latent.theta
    if high_range is not None:
        noise = latent.run / np.sqrt(points.replicates.mean())
        high_range = max(high_range[0] - EXTREME * noise, float(lower_bound[0])), high_range[1]
        middle = _follow(form, points, theta, held, high_range, objective)
    draws = np.clip(middle + spread, lower_bound, upper_bound)
    quantile = float(special.stdtrit(latent.degrees, (1 + COVERAGE) / 2))
    if high_range is None:
        whole = latent.covariance + np.diag(latent.beyond)
        reach = quantile * np.sqrt(np.einsum("ij,jk,ik->i", to_paper, whole, to_paper))
        lower, upper = to_paper @ latent.theta - reach, to_paper @ latent.theta + reach
        # A search that ends at its bound has not found the middle of anything: the estimate counts as much.
        lower = np.where(latent.at_bound, np.minimum(lower, to_paper @ theta), lower)
        upper = np.where(latent.at_bound, np.maximum(upper, to_paper @ theta), upper)
    else:
        tails = (1 - COVERAGE) / 2
        lower, upper = np.quantile(
            (middle + spread * quantile / 1.96) @ to_paper.T, [tails, 1 - tails], axis=0
        )
        for column in _at_bound(form, theta, held):
            possible = _possible(form, points, theta, held, column, objective, quantile) @ to_paper.T
            lower, upper = np.minimum(lower, possible.min(axis=0)), np.maximum(upper, possible.max(axis=0))
        lower[0], upper[0] = high_range
    # What is open on both sides is said to lie anywhere in the range that is searched.
    open_ended = ((to_paper != 0).sum(axis=1) == 1) & (lower < lower_bound) & (upper > upper_bound)
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


def _follow(
    form: PruningForm,
    points: Points,
    theta: Floats,
    held: Mask,
    high_range: tuple[float, float],
    objective: Objective,
) -> Floats:
    """The point fit with ε↑ held at values spread evenly over its range."""
    return moved(form, points, theta, held, 0, np.linspace(*high_range, DRAWS), objective).theta


def _at_bound(form: PruningForm, theta: Floats, held: Mask) -> list[int]:
    """Parameters beside ε↑ whose search ends at a bound that means nothing: draws that end there too have no width."""
    lower, upper = bounds(form)
    ends = ~held & ((theta <= lower) | (theta >= upper))
    return [int(i) for i in np.flatnonzero(ends) if i and form.parameters[i].name not in LIMITS]


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

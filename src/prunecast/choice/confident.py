"""How far a network can be pruned if a new training shall meet the target with some probability."""

import numpy as np

from prunecast.choice.density import LEAST, Curves, smallest_density
from prunecast.choice.options import by_law, quantile
from prunecast.choice.sizes import Sizes
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Mask

STEPS, CLOSE = 30, 1e-6
GRID, HALVINGS = 24, 25


def confident_density(
    fit: Fit, sizes: Sizes, log_target: float, confidence: float, curves: Curves | None = None
) -> Floats:
    """The smallest density of each network at which ε̂ · exp(t·spread) is at most the target; infinite where none is.

    Iterating on the spread finds it in a few steps where the spread changes slowly with density. Where that fails, as
    with parameters that the data leave open, the promise is bracketed on a grid and halved.
    """
    plain = smallest_density(fit, sizes, np.full(len(sizes), log_target), curves)
    score = quantile(fit, confidence)
    if not score:
        return plain
    density = _iterated(fit, sizes, plain, log_target, score)
    possible = np.isfinite(plain) | (score < 0)
    missed = np.flatnonzero(possible & ~_kept(fit, sizes, np.minimum(density, 1.0), log_target, score))
    ends = (plain[missed], np.ones(len(missed))) if score > 0 else (LEAST, np.minimum(plain[missed], 1.0))
    density[missed] = _bracketed(fit, sizes[missed], ends, log_target, score)
    return density


def _kept(fit: Fit, sizes: Sizes, density: Floats, log_target: float, score: float) -> Mask:
    """Whether the promise of each network at its density keeps the target."""
    options = by_law(fit, sizes, density)
    return np.asarray(options.log_error + score * options.spread <= log_target + CLOSE)


def _iterated(fit: Fit, sizes: Sizes, density: Floats, log_target: float, score: float) -> Floats:
    density, active = density.copy(), np.arange(len(sizes))
    for _ in range(STEPS):
        there = np.minimum(density[active], 1.0)
        aim = log_target - score * by_law(fit, sizes[active], there).spread
        following = smallest_density(fit, sizes[active], aim)
        density[active] = following
        active = active[~np.isclose(np.minimum(following, 1.0), there, rtol=1e-7, atol=0)]
        if not len(active):
            break
    return density


def _bracketed(
    fit: Fit, sizes: Sizes, ends: tuple[Floats | float, Floats], log_target: float, score: float
) -> Floats:
    """The smallest density between two ends that keeps the target, as far as a grid shows it."""
    if not len(sizes):
        return np.zeros(0)
    grid = np.linspace(np.broadcast_to(np.log(ends[0]), len(sizes)), np.log(ends[1]), GRID)
    kept = np.array([_kept(fit, sizes, np.exp(row), log_target, score) for row in grid])
    first, each = kept.argmax(axis=0), np.arange(len(sizes))
    lower, upper = grid[np.maximum(first - 1, 0), each], grid[first, each]
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2
        good = _kept(fit, sizes, np.exp(middle), log_target, score)
        lower, upper = np.where(good, lower, middle), np.where(good, middle, upper)
    return np.where(kept.any(axis=0), np.exp(upper), np.inf)

"""The luck of single trainings, taken out before anything is picked.

The smallest of many networks that seem to meet a target is likely to be one whose measurement was lucky. An estimate
that is drawn towards what the law and the neighbours say, by as much as its noise explains, is not biased by picking.
"""

import numpy as np

from prunecast.laws import Fit
from prunecast.laws.points import Floats
from prunecast.laws.predict import PLACE, evaluate, query

LEVELS = 5.0
"""Over about so many levels what a law misses of a curve stays the same."""
LOG_KEPT = float(np.log(0.8))
"""A level in log density."""


def noise(fit: Fit) -> float:
    """Standard deviation of log ε of single trainings around a smooth curve, from second differences along each curve.

    Deviations from the law may be large and smooth, as where pruning first improves a network; what changes from
    one level to the next and back is noise.
    """
    rows = [(index, *row) for index, c in enumerate(fit.configurations) for row in c.curve]
    index, density, error, replicates = np.array(rows, dtype=float).reshape(-1, 4).T
    own = index.astype(np.int64)
    places = {name: np.array([getattr(c, name) for c in fit.configurations])[own] for name in PLACE}
    unpruned = np.array([c.unpruned_error for c in fit.configurations])[own]
    points = query(fit, {"density": density, **places}, unpruned)
    deviation, share = (
        np.log(error) - evaluate(fit, fit.theta()[None], points)[0][0],
        1 / np.maximum(replicates, 1),
    )
    bend = deviation[2:] - 2 * deviation[1:-1] + deviation[:-2]
    squares = (bend**2 / (share[2:] + 4 * share[1:-1] + share[:-2]))[own[2:] == own[:-2]]
    return float(np.sqrt(squares.mean())) if len(squares) else fit.spread.run


def settle_unpruned(
    fit: Fit, measured: Floats, predicted: Floats, replicates: Floats
) -> tuple[Floats, Floats]:
    """Measured unpruned errors drawn towards the dense law, and the variance of log ε_np that this takes away.

    The dense law's misses beyond the noise are the networks' own; the smaller they are, the more of what a
    measurement deviates from that law is luck.
    """
    if fit.dense is None or not len(measured):
        return measured, np.zeros(len(measured))
    chance = noise(fit) ** 2 / np.maximum(replicates, 1.0)
    own = np.maximum(fit.dense.deviation**2 - chance, 0.0)
    share = chance / np.maximum(chance + own, 1e-300)
    return np.exp((1 - share) * np.log(measured) + share * np.log(predicted)), share * chance


def settle_curve(
    density: Floats, deviation: Floats, variance: Floats, misfit: float
) -> tuple[Floats, Floats]:
    """The expected deviations from the law along a curve and their variances, given noisy ones.

    What the law misses is taken for a smooth random curve (Matérn 3/2 in log density) of variance `misfit`; without
    any, all deviations are luck and the law is what to expect.
    """
    apart = np.sqrt(3.0) * np.abs(np.subtract.outer(np.log(density), np.log(density)) / LOG_KEPT) / LEVELS
    prior = misfit * (1 + apart) * np.exp(-apart)
    gain = np.linalg.solve(prior + np.diag(np.maximum(variance, 1e-12)), prior).T
    return gain @ deviation, np.maximum(np.diag(prior - gain @ prior), 0.0)

"""The noise of single training runs, and measured errors shrunk towards the law by as much as it explains.

The smallest of many networks that seem to meet a target is likely to be one whose measurement was lucky. An estimate
that is shrunk towards what the law and the neighbours predict, by as much as noise explains, is not biased by picking
the best.
"""

import numpy as np

from prunecast.laws import AXES, Fit, Floats, evaluate, query

CORRELATION_LENGTH = 5 * float(np.log(1.25))
"""In log density: what a law misses of a curve changes little over this range."""


def run_noise(fit: Fit) -> float:
    """Standard deviation of log ε of single runs around a smooth curve, from second differences along each curve.

    Deviations from the law may be large and smooth, as where pruning first improves a network; what changes from
    one level to the next and back is noise.
    """
    rows = [(index, *row) for index, c in enumerate(fit.configurations) for row in c.curve]
    index, density, error, replicates = np.array(rows, dtype=float).reshape(-1, 4).T
    own = index.astype(np.int64)
    places = {name: np.array([getattr(c, name) for c in fit.configurations])[own] for name in AXES}
    unpruned = np.array([c.unpruned_error for c in fit.configurations])[own]
    points = query(fit, {"density": density, **places}, unpruned)
    deviation = np.log(error) - evaluate(fit, fit.theta()[None], points)[0][0]
    share = 1 / np.maximum(replicates, 1)
    bend = deviation[2:] - 2 * deviation[1:-1] + deviation[:-2]
    squares = (bend**2 / (share[2:] + 4 * share[1:-1] + share[:-2]))[own[2:] == own[:-2]]
    return float(np.sqrt(squares.mean())) if len(squares) else fit.spread.run


def shrink_unpruned(
    fit: Fit, measured: Floats, predicted: Floats, replicates: Floats
) -> tuple[Floats, Floats]:
    """Measured unpruned errors shrunk towards the dense law, and the variance of log ε_np that this removes.

    The deviations of the dense law beyond the noise are the networks' own. The smaller they are, the more of a
    measurement's deviation from that law is noise.
    """
    if fit.dense is None or not len(measured):
        return measured, np.zeros(len(measured))
    noise = run_noise(fit) ** 2 / np.maximum(replicates, 1.0)
    own = np.maximum(fit.dense.deviation**2 - noise, 0.0)
    share = noise / np.maximum(noise + own, 1e-300)
    return np.exp((1 - share) * np.log(measured) + share * np.log(predicted)), share * noise


def shrink_curve(
    density: Floats, deviation: Floats, variance: Floats, misfit: float
) -> tuple[Floats, Floats]:
    """The expected deviations from the law along a curve and their variances, given noisy ones.

    What the law misses is taken for a smooth random curve (Matérn 3/2 in log density) of variance `misfit`. Where
    that is zero, all deviations are noise and the law is what to expect.
    """
    apart = np.sqrt(3.0) * np.abs(np.subtract.outer(np.log(density), np.log(density))) / CORRELATION_LENGTH
    prior = misfit * (1 + apart) * np.exp(-apart)
    gain = np.linalg.solve(prior + np.diag(np.maximum(variance, 1e-12)), prior).T
    return gain @ deviation, np.maximum(np.diag(prior - gain @ prior), 0.0)

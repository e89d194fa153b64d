"""How training runs scatter around a law: the noise of each chain, and what the law itself misses of each curve.

With x the log density, the log error of a training run is taken as

    log ε(x) = log ε̂(θ, ℓ, x) + misfit(x) + noise(x).

`misfit` belongs to a configuration: all of its replicates share it. It is smooth in x (Matérn 3/2) and zero at density
1, where every law gives the unpruned error. `noise` belongs to a chain, whose levels resemble one another because each
begins with the mask of the one before: two of them have the correlation ρ·exp(−|x − x′|/L). ℓ is log ε_np of the
configuration without the noise of its measurement. Replicates tell the noise. Without them the roughness of the curves
does, as misfit is smooth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from prunecast.laws.points import Floats

LEVEL = float(np.log(1.25))
"""The log density between two levels of the paper."""
CORRELATION, CORRELATION_LENGTH = 0.85, 10 * LEVEL
"""ρ and L; replicates of measured chains have about these."""
MISFIT_LENGTH, MISFIT_ONSET = 5 * LEVEL, 2 * LEVEL
"""Over how much log density the misfit changes, and over how much it sets in."""
MOST_CURVES = 200
"""Of more configurations than these, about so many are enough to infer noise and misfit from."""
RANGE = (1e-4, 2.0)
"""The standard deviations that are searched."""
NOISE_PER_ROUGHNESS = 2.1
"""How much more replicates differ than second differences along one curve show, in measured tables; see ρ."""
MOST_NOISE, LEAST_MISFIT = 0.8, 0.7
"""Of the mean square deviation from a law at most this share is noise; and no law misses less than this much of it."""
TINY = 1e-10


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The measured rows of a configuration beside the law: arrays of one length, but for the prior of ℓ."""

    log_density: Floats
    deviation: Floats
    """log ε − log ε̂, with the law given the measured ε_np"""
    replicates: Floats
    slope: Floats
    """∂log ε̂/∂ℓ"""
    known: Floats
    """the covariance of log ε̂ that the parameters of the law and ℓ leave"""
    unpruned_shift: float
    """the dense law's ℓ less the measured one; zero where there is no such law"""

    @property
    def missed(self) -> Floats:
        """The deviation from the law with the dense law's ℓ."""
        return self.deviation - self.slope * self.unpruned_shift


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Standard deviations of log ε."""

    noise: float
    """of single chains around what is expected of their configuration"""
    misfit: float
    """of the law around that, where pruning is under way"""

    def of_chains(self, x: Floats, replicates: Floats) -> Floats:
        """The covariance of the noise at log densities x of means over replicates, the later among the earlier ones."""
        shared = CORRELATION * np.exp(-np.abs(np.subtract.outer(x, x)) / CORRELATION_LENGTH)
        shared[np.diag_indices_from(shared)] = 1.0
        return np.asarray(self.noise**2 * shared / np.maximum.outer(replicates, replicates))

    def of_law(self, x: Floats, other: Floats) -> Floats:
        """The covariance of the misfit between two sets of log densities."""
        apart = np.sqrt(3.0) * np.abs(np.subtract.outer(x, other)) / MISFIT_LENGTH
        return np.asarray(self.misfit**2 * (1 + apart) * np.exp(-apart) * np.outer(onset(x), onset(other)))

    def variance_of_law(self, x: Floats) -> Floats:
        """The variance of the misfit at log densities."""
        return np.asarray((self.misfit * onset(x)) ** 2)


def onset(x: Floats) -> Floats:
    """How much of the misfit there is at log densities: none at density 1."""
    return np.asarray(-np.expm1(-np.abs(x) / MISFIT_ONSET))


def inferred(curves: Sequence[Curve], replicate_noise: float | None) -> Scatter:
    """The noise of replicates, or what the roughness of the curves says of it, and the most likely misfit."""
    whole = float(np.sqrt(np.concatenate([curve.deviation**2 * curve.replicates for curve in curves]).mean()))
    rough = NOISE_PER_ROUGHNESS * roughness(curves, whole)
    noise = min(rough, np.sqrt(MOST_NOISE) * whole) if replicate_noise is None else replicate_noise
    noise = float(np.clip(noise, *RANGE))
    likely = _Likelihood(curves)
    found = optimize.minimize_scalar(
        lambda misfit: likely.cost(noise, np.exp(misfit)),
        bounds=(np.log(LEAST_MISFIT * noise), np.log(RANGE[1])),
        method="bounded",
        options={"xatol": 0.01},
    )
    return Scatter(noise=noise, misfit=float(np.exp(found.x)))


def roughness(curves: Sequence[Curve], otherwise: float) -> float:
    """The noise of single runs that would give the second differences along the curves if it were independent.

    Deviations from the law may be large and smooth. What changes from one level to the next and back is noise.
    """
    squares = []
    for curve in curves:
        y, share = curve.deviation, 1 / curve.replicates
        squares.append((y[2:] - 2 * y[1:-1] + y[:-2]) ** 2 / (share[2:] + 4 * share[1:-1] + share[:-2]))
    every = np.concatenate(squares)
    return float(np.sqrt(every.mean())) if len(every) else otherwise


class _Likelihood:
    """The likelihood of some curves together, each filled up with rows that tell nothing."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        one = Scatter(noise=1.0, misfit=1.0)
        count, longest = len(curves), max(len(curve.deviation) for curve in curves)
        self._noise, self._misfit, self._rest = (np.zeros((count, longest, longest)) for _ in range(3))
        self._missed = np.zeros((count, longest))
        self._rest[:] = np.eye(longest)
        for index, curve in enumerate(curves):
            x, rows = curve.log_density, slice(len(curve.deviation))
            at = index, rows, rows
            self._noise[at], self._misfit[at] = one.of_chains(x, curve.replicates), one.of_law(x, x)
            self._rest[at] = curve.known + TINY * np.eye(len(x))
            self._missed[index, rows] = curve.missed

    def cost(self, noise: float, misfit: float) -> float:
        """Minus the log likelihood, but for a constant."""
        root = np.linalg.cholesky(noise**2 * self._noise + misfit**2 * self._misfit + self._rest)
        white = np.linalg.solve(root, self._missed[:, :, None])
        return float((white**2).sum() / 2 + np.log(np.diagonal(root, axis1=1, axis2=2)).sum())

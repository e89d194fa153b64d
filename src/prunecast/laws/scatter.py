"""How training runs scatter around a law: the noise of each chain, and what the law itself misses of each curve.

With x the log density, the log error of a training run is taken as

    log ε(x) = log ε̂(θ, ℓ, x) + misfit(x) + noise(x).

`misfit` belongs to a configuration: all of its replicates share it. It is smooth in x (Matérn 3/2) and zero at density
1, where every law gives the unpruned error. `noise` belongs to a chain, whose levels resemble one another because each
begins with the mask of the one before: two of them have the correlation ρ·exp(−|x − x′|/L). ℓ is log ε_np of the
configuration without the noise of its measurement. Its variance around the dense law is σ_d² − σ²/R, where σ_d is the
deviation of the measured unpruned errors and σ²/R their noise.

Replicates show the noise σ, and the misfit is then the most likely one. Without replicates both are inferred together
from the curves, as misfit is smooth and noise is partly not. Too much misfit would make an answer trust a size's own
curve, so lucky chains would be chosen; the ratio misfit/noise is therefore shrunk towards that of measured tables.
"""

from collections.abc import Callable, Sequence
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
USUAL_RATIO, RATIO_STD = 0.75, 0.4
"""misfit/noise in measured tables with replicates; by how much its logarithm differs among them, which is also by how
much it is wrong where it is inferred from one replicate"""
RATIOS, NEAR = (0.3, 50.0), 1.5
"""Which ratios are searched, and how far from its first estimate the logarithm of the noise."""
FEW_CURVES = 5
"""Fewer than these do not separate noise from misfit: the roughness along them is taken for noise."""
MOST_NOISE = 0.8
"""Then of the mean square deviation from a law at most this share is noise."""
FIRST_STEPS = np.array([[0.0, 0.0], [0.3, 0.0], [0.0, 0.5]])
LEAST_UNPRUNED = 0.5
"""Of the deviations from the dense law at most three quarters of the variance are noise."""
TINY = 1e-10


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The measured rows of a configuration and the law's estimates: arrays of one length, but for the prior of ℓ."""

    log_density: Floats
    deviation: Floats
    """log ε − log ε̂, with the law given the measured ε_np"""
    replicates: Floats
    slope: Floats
    """∂log ε̂/∂ℓ"""
    known: Floats
    """the covariance of log ε̂ that the parameters of the law leave"""
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
    unpruned: float
    """of log ε_np around the dense law, without noise"""

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


def inferred(curves: Sequence[Curve], replicate_noise: float | None, unpruned: float) -> Scatter:
    """The noise of replicates and the most likely misfit; without replicates, the most likely of both."""
    likely = _Likelihood(curves, unpruned)
    whole = float(np.sqrt(np.concatenate([c.deviation**2 * c.replicates for c in curves]).mean()))
    rough = float(np.clip(NOISE_PER_ROUGHNESS * roughness(curves, whole), *RANGE))
    if replicate_noise is not None or len(curves) < FEW_CURVES:
        noise = min(rough, max(np.sqrt(MOST_NOISE) * whole, RANGE[0]))
        log_noise = float(np.log(noise if replicate_noise is None else replicate_noise))
        ratios = float(np.log(RATIOS[0])), float(np.log(RATIOS[1]))
        return likely.scatter(log_noise, shrunk(_least(lambda at: likely.cost(log_noise, at), ratios)))
    start = np.array([np.log(rough), np.log(USUAL_RATIO)])

    def cost(at: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        return likely.cost(float(at[0]), float(at[1]))

    first: Floats = start + FIRST_STEPS
    most = optimize.minimize(
        cost, start, method="Nelder-Mead", options={"initial_simplex": first, "xatol": 0.03, "fatol": 0.05}
    ).x
    log_ratio = shrunk(float(np.clip(most[1], *np.log(RATIOS))))
    near = float(most[0]) - NEAR, float(most[0]) + NEAR
    return likely.scatter(_least(lambda at: likely.cost(at, log_ratio), near), log_ratio)


def shrunk(log_ratio: float) -> float:
    """The logarithm of misfit/noise between the most likely and the usual one.

    Minimises (r − r̂)²/2s² + log(1 + (r − r₀)²/s²): a normal error of the most likely r̂, and a Cauchy distribution
    around the usual r₀, both of width s. Near r₀ this goes a third of the way; an r̂ far away is believed.
    """
    usual = float(np.log(USUAL_RATIO))

    def cost(at: float) -> float:
        return float(((at - log_ratio) / RATIO_STD) ** 2 / 2 + np.log1p(((at - usual) / RATIO_STD) ** 2))

    return _least(cost, (min(usual, log_ratio) - 0.01, max(usual, log_ratio) + 0.01))


def _least(cost: Callable[[float], float], bounds: tuple[float, float]) -> float:
    found = optimize.minimize_scalar(cost, bounds=bounds, method="bounded", options={"xatol": 0.005})
    return float(found.x)


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
    """The likelihood of some curves together, each padded with rows that carry no information."""

    def __init__(self, curves: Sequence[Curve], unpruned: float) -> None:
        one = Scatter(noise=1.0, misfit=1.0, unpruned=1.0)
        count, longest = len(curves), max(len(curve.deviation) for curve in curves)
        self._noise, self._misfit, self._unpruned, self._rest = (
            np.zeros((count, longest, longest)) for _ in range(4)
        )
        self._missed = np.zeros((count, longest))
        self._rest[:] = np.eye(longest)
        self._deviation = unpruned
        self._share = float(np.mean([1 / curve.replicates[curve.log_density.argmax()] for curve in curves]))
        for index, curve in enumerate(curves):
            x, rows = curve.log_density, slice(len(curve.deviation))
            at = index, rows, rows
            self._noise[at], self._misfit[at] = one.of_chains(x, curve.replicates), one.of_law(x, x)
            self._unpruned[at] = np.outer(curve.slope, curve.slope)
            self._rest[at] = curve.known + TINY * np.eye(len(x))
            self._missed[index, rows] = curve.missed

    def scatter(self, log_noise: float, log_ratio: float) -> Scatter:
        """Standard deviations from the logarithms of the noise and of misfit/noise."""
        noise, misfit = np.exp(np.clip([log_noise, log_noise + log_ratio], *np.log(RANGE)))
        unpruned = max(self._deviation**2 - self._share * noise**2, (LEAST_UNPRUNED * self._deviation) ** 2)
        return Scatter(noise=float(noise), misfit=float(misfit), unpruned=float(np.sqrt(unpruned)))

    def cost(self, log_noise: float, log_ratio: float) -> float:
        """Minus the log likelihood, but for a constant."""
        own = self.scatter(log_noise, log_ratio)
        root = np.linalg.cholesky(
            own.noise**2 * self._noise
            + own.misfit**2 * self._misfit
            + own.unpruned**2 * self._unpruned
            + self._rest
        )
        white = np.linalg.solve(root, self._missed[:, :, None])
        return float((white**2).sum() / 2 + np.log(np.diagonal(root, axis1=1, axis2=2)).sum())

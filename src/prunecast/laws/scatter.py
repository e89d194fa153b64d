"""How training runs scatter around a law: the noise of each chain, and what the law itself misses of each curve.

With x the log density, the log error of a training run is taken as

    log ε(x) = log ε̂(θ, ℓ, x) + misfit(x) + noise(x).

`misfit` is shared by all replicates of a configuration. It is smooth in x (Matérn 5/2) and zero at density 1, where
every law gives the unpruned error. `noise` is that of one chain. Each level of a chain starts with the mask of the
level before, so the noise of two levels has the correlation ρ·exp(−|x − x′|/L). ℓ is the log ε_np of the configuration
without measurement noise.

If every density was trained independently, as in one-shot pruning, ρ is 0. The curves show this even without
replicates: neighbouring levels then differ by the whole noise.

A law misses similar sizes alike. So misfit, and the error of the dense law in ℓ, are smooth in the logarithms of depth,
width and number of examples (Matérn 3/2), and the curves of similar sizes show what to expect of one size. A curve that
differs from them was partly lucky or unlucky. This separates misfit from noise in tables without replicates, and it
corrects for the luck of the best of many sizes.

Smaller networks differ more between training runs: the noise of a network with M weights is proportional to M^−κ, with
the most likely κ.

Configurations are coupled by the misfit at a few densities, the knots, and by ℓ. Between the knots, the misfit of each
configuration is independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import linalg

from prunecast.laws.points import Floats

LEVEL = float(np.log(1.25))
"""The log density between two levels of the paper."""
CORRELATION, CORRELATION_LENGTH = 0.85, 10 * LEVEL
"""ρ and L, about those of replicates of measured chains."""
LOOSER, CLEARLY_LIKELIER = (0.5, 0.0), 10.0
"""Other ρ to try, and by how much the log likelihood must be larger to choose one; for measured chains it never was."""
MISFIT_LENGTH, MISFIT_ONSET = 6 * LEVEL, 2 * LEVEL
"""The log density over which the misfit changes, and over which it sets in."""
SIZE_LENGTH = 1.5
"""Doublings of a size over which it changes: of 1, 1.5, ... 3, the most likely for all measured tables together."""
MOST_CURVES = 150
"""At most this many configurations are used to infer noise and misfit, and as neighbours."""
RANGE = (1e-4, 2.0)
"""The standard deviations that are searched."""
NOISE_PER_ROUGHNESS = 2.1
"""Noise of replicates divided by the noise that second differences along a curve suggest, in measured tables."""
LEAST_RATIO = 0.3
"""Misfit, and the deviation of the dense law, are at least this share of the noise, as no law is exact."""
FEW_CURVES = 5
"""With fewer curves than this, noise and misfit cannot be separated; the roughness of the curves counts as noise."""
MOST_NOISE = 0.8
"""In that case, at most this share of the mean square deviation from a law is noise."""
FIRST_STEP = 0.4
DECLINES, DECLINE_UNIT = (-0.5, 0.5), 0.125
"""The exponents of size that are searched, and their step relative to those of logarithms."""
TINY, OWN = 1e-10, 1e-6
"""Small shares of a variance that keep matrices regular; the second is that of each configuration alone."""

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The measured rows of a configuration and the law's estimates."""

    log_density: Floats
    deviation: Floats
    """log ε − log ε̂, with the law given the measured ε_np"""
    replicates: Floats
    slope: Floats
    """∂log ε̂/∂ℓ"""
    known: Floats
    """the covariance of log ε̂ that the parameters of the law leave"""
    unpruned_shift: float
    """the dense law's ℓ less the measured one; zero if there is no such law"""
    place: Floats
    """depth, width and number of examples, in doublings"""
    log_weights: float = 0.0
    """of the unpruned network"""

    @property
    def missed(self) -> Floats:
        """The deviation from the law with the dense law's ℓ."""
        return self.deviation - self.slope * self.unpruned_shift


@dataclass(frozen=True, kw_only=True)
class Scatter:
    """Standard deviations of log ε."""

    noise: float
    """of single chains of typical size around the expectation of their configuration"""
    misfit: float
    """of the law around that expectation, at low densities"""
    unpruned: float
    """of log ε_np around the dense law, without noise"""
    correlation: float = CORRELATION
    """ρ, of the noise at neighbouring levels of one chain"""
    knots: Floats = field(default_factory=lambda: np.zeros(0))
    """log densities whose misfit is coupled between neighbours"""
    decline: float = 0.0
    """κ: the noise of a network with M weights is proportional to M^−κ"""
    typical: float = 0.0
    """log M of a network whose noise is `noise`"""

    def noise_of(self, log_weights: Floats | float) -> Floats:
        """The noise of single chains of networks of these sizes."""
        return np.asarray(self.noise * np.exp(-self.decline * (np.asarray(log_weights) - self.typical)))

    def of_chains(self, x: Floats, replicates: Floats, log_weights: float | None = None) -> Floats:
        """The covariance of the noise of means over replicates at log densities x.

        Without `log_weights`, the network has typical size.
        """
        noise = self.noise if log_weights is None else float(self.noise_of(log_weights))
        shared = self.correlation * np.exp(-np.abs(np.subtract.outer(x, x)) / CORRELATION_LENGTH)
        shared[np.diag_indices_from(shared)] = 1.0
        return np.asarray(noise**2 * shared / np.maximum.outer(replicates, replicates))

    def of_law(self, x: Floats, other: Floats) -> Floats:
        """The covariance of the misfit between two sets of log densities."""
        return np.asarray(self.misfit**2 * smooth(x, other) * np.outer(onset(x), onset(other)))

    def variance_of_law(self, x: Floats) -> Floats:
        """The variance of the misfit at log densities."""
        return np.asarray((self.misfit * onset(x)) ** 2)

    def alone(self, x: Floats, other: Floats) -> Floats:
        """The covariance of the misfit that neighbours do not share."""
        shared, others = (self._at_knots(rows) for rows in (x, other))
        return self.of_law(x, other) - shared @ others.T

    def variance_alone(self, x: Floats) -> Floats:
        """The variance of the misfit that neighbours do not share."""
        return np.asarray(self.variance_of_law(x) - (self._at_knots(x) ** 2).sum(axis=1))

    def coupled(self, x: Floats, slope: Floats) -> Floats:
        """How rows depend on the numbers that neighbours share, which have variance 1; the last is that of ℓ."""
        return np.column_stack([self._at_knots(x), self.unpruned * slope])

    def _at_knots(self, x: Floats) -> Floats:
        """How the misfit at log densities depends on independent numbers of variance 1, one per knot."""
        root = np.linalg.cholesky(smooth(self.knots, self.knots))
        near = smooth(self.knots, x) * onset(x)
        return np.asarray(self.misfit * np.linalg.solve(root, near).T)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The distribution of the numbers of `Scatter.coupled` for one configuration, given the other configurations."""

    mean: Floats
    covariance: Floats


def onset(x: Floats) -> Floats:
    """The share of the misfit at log densities: 0 at density 1, 1 far below."""
    return np.asarray(-np.expm1(-np.abs(x) / MISFIT_ONSET))


def smooth(x: Floats, other: Floats) -> Floats:
    """The correlation of the misfit between two sets of log densities, apart from its onset."""
    apart = np.sqrt(5.0) * np.abs(np.subtract.outer(x, other)) / MISFIT_LENGTH
    return np.asarray((1 + apart + apart**2 / 3) * np.exp(-apart))


def resemblance(places: Floats, others: Floats) -> Floats:
    """The correlation of a law's errors between two sets of sizes, one per row."""
    square = ((places[:, None, :] - others[None, :, :]) ** 2).sum(axis=2)
    apart: Floats = np.sqrt(np.asarray(3.0 * square, dtype=float)) / SIZE_LENGTH
    return np.asarray((1 + apart) * np.exp(-apart))


def knots_of(curves: Sequence[Curve]) -> Floats:
    """Knots at distances of one misfit length, down to the lowest measured density."""
    lowest = min(float(curve.log_density.min()) for curve in curves)
    count = max(1, round(-lowest / MISFIT_LENGTH))
    return np.asarray(-MISFIT_LENGTH * (0.5 + np.arange(count)), dtype=float)


def inferred(curves: Sequence[Curve], replicate_noise: float | None, unpruned: float | None) -> Scatter:
    """The most likely noise, misfit and deviation of the dense law; replicates, if any, determine the noise.

    `unpruned` is the standard deviation of ℓ if there is no dense law.
    """
    together = Neighbours(curves, dense=unpruned is None)
    whole = float(np.sqrt(np.concatenate([c.deviation**2 * c.replicates for c in curves]).mean()))
    rough = float(np.clip(NOISE_PER_ROUGHNESS * roughness(curves, whole), *RANGE))
    noise = replicate_noise
    if noise is None and len(curves) < FEW_CURVES:
        noise = min(rough, max(np.sqrt(MOST_NOISE) * whole, RANGE[0]))
    best, cost = _likeliest(together, curves, CORRELATION, noise, rough, unpruned)
    if noise is None:
        for correlation in LOOSER:
            less = rough * np.sqrt((1 - CORRELATION) / (1 - correlation))
            found, own = _likeliest(together, curves, correlation, noise, max(less, RANGE[0]), unpruned)
            if own < cost - CLEARLY_LIKELIER * (best.correlation == CORRELATION):
                best, cost = found, own
    return best


def _likeliest(
    together: "Neighbours",
    curves: Sequence[Curve],
    correlation: float,
    noise: float | None,
    rough: float,
    unpruned: float | None,
) -> tuple[Scatter, float]:
    """The most likely scatter for a ρ and perhaps a known noise, and minus its log likelihood."""
    from scipy import optimize  # slow to import, and most fits do not need it

    sizes = np.array([curve.log_weights for curve in curves])
    varied = bool(len(curves) >= FEW_CURVES and np.ptp(sizes) > TINY)
    repeated = np.array([(curve.replicates > 1).sum() for curve in curves])
    rows = repeated if repeated.any() else np.array([len(curve.deviation) for curve in curves])

    def scatter(at: Vector) -> Scatter:
        own = noise or float(np.exp(np.clip(at[2], *np.log(RANGE))))
        least = np.log(max(LEAST_RATIO * own, RANGE[0]))
        misfit, missed = np.exp(np.clip(at[:2], least, np.log(RANGE[1]))).tolist()
        decline = float(np.clip(at[-1] * DECLINE_UNIT, *DECLINES)) if varied else 0.0
        return Scatter(
            noise=own,
            misfit=misfit,
            unpruned=unpruned or missed,
            correlation=correlation,
            knots=together.knots,
            decline=decline,
            typical=_typical(sizes, rows, decline),
        )

    def cost(at: Vector) -> float:
        return together.cost(scatter(at))

    start: Vector = np.append(np.full(2 if noise else 3, np.log(noise or rough)), [0.0] * varied)
    first: Floats = np.vstack([start, start + FIRST_STEP * np.eye(len(start))])
    found = optimize.minimize(
        cost,
        start,
        method="Nelder-Mead",
        options={"initial_simplex": first, "xatol": 0.03, "fatol": 0.05},
    )
    return scatter(found.x), float(found.fun)


def _typical(sizes: Floats, rows: Floats, decline: float) -> float:
    """The log of the size whose noise is the root mean square over all rows."""
    middle = np.average(sizes, weights=rows)
    if not decline:
        return float(middle)
    square = np.average(np.exp(-2 * decline * (sizes - middle)), weights=rows)
    return float(middle - np.log(square) / (2 * decline))


def roughness(curves: Sequence[Curve], otherwise: float) -> float:
    """The noise of single runs, if it were independent, that explains the second differences along the curves.

    Deviations from the law may be large and smooth. Changes from one level to the next and back are noise.
    """
    squares = []
    for curve in curves:
        y, share = curve.deviation, 1 / curve.replicates
        squares.append((y[2:] - 2 * y[1:-1] + y[:-2]) ** 2 / (share[2:] + 4 * share[1:-1] + share[:-2]))
    every = np.concatenate(squares)
    return float(np.sqrt(every.mean())) if len(every) else otherwise


class Neighbours:
    """Curves that inform one another, padded to one length with rows without information.

    Given the numbers that couple them, curves are independent. So only these numbers need a large matrix.
    """

    def __init__(self, curves: Sequence[Curve], *, dense: bool) -> None:
        count, longest = len(curves), max(len(curve.deviation) for curve in curves)
        self.knots = knots_of(curves)
        one = Scatter(noise=1.0, misfit=1.0, unpruned=1.0, knots=self.knots)
        self._noise, self._misfit, self._rest = (np.zeros((count, longest, longest)) for _ in range(3))
        self._coupled, self._missed = (
            np.zeros((count, longest, len(self.knots) + 1)),
            np.zeros((count, longest)),
        )
        self._rest[:] = np.eye(longest)
        for index, curve in enumerate(curves):
            x, rows = curve.log_density, slice(len(curve.deviation))
            at = index, rows, rows
            coupled = one.coupled(x, curve.slope)
            self._noise[at] = one.of_chains(x, curve.replicates)
            self._misfit[at] = one.alone(x, x)
            self._rest[at] = curve.known + TINY * np.eye(len(x))
            self._coupled[index, rows], self._missed[index, rows] = coupled, curve.missed
        self._places = np.stack([curve.place for curve in curves])
        self._sizes = np.array([curve.log_weights for curve in curves])
        self.dense = dense

    @cached_property
    def _apart(self) -> Floats:
        """The inverse of the correlation between configurations."""
        alike = resemblance(self._places, self._places) + OWN * np.eye(len(self._places))
        return np.asarray(np.linalg.inv(alike))

    def weights(self, places: Floats) -> tuple[Floats, Floats]:
        """The weights of all configurations in the expectation at each place, and the remaining variance."""
        near = resemblance(places, self._places)
        weight = near @ self._apart
        return weight, np.maximum(1.0 - (near * weight).sum(axis=1), 0.0)

    def _seen(self, scatter: Scatter) -> tuple[Floats, Floats, float]:
        """Each curve's precision of its own numbers, and times their mean; minus the log likelihood."""
        scale = np.append(np.full(len(self.knots), scatter.misfit), scatter.unpruned)
        noise = scatter.noise_of(self._sizes)[:, None, None] ** 2 * self._noise
        if scatter.correlation != CORRELATION:
            single = np.diagonal(noise, axis1=1, axis2=2).copy()
            noise *= scatter.correlation / CORRELATION
            np.einsum("cii->ci", noise)[:] = single
        root = np.linalg.cholesky(noise + scatter.misfit**2 * self._misfit + self._rest)
        white = np.linalg.solve(
            root, np.concatenate([self._coupled * scale, self._missed[:, :, None]], axis=2)
        )
        basis, missed = white[:, :, :-1], white[:, :, -1]
        cost = (missed**2).sum() / 2 + np.log(np.diagonal(root, axis1=1, axis2=2)).sum()
        return basis.transpose(0, 2, 1) @ basis, np.einsum("crj,cr->cj", basis, missed), float(cost)

    def _precision(self, seen: Floats) -> Floats:
        """The precision of the numbers of all configurations together, given the curves."""
        count, numbers = seen.shape[:2]
        whole = np.zeros((count, numbers, count, numbers))
        for number in range(numbers):
            alone = number == numbers - 1 and not self.dense
            whole[:, number, :, number] = np.eye(count) if alone else self._apart
        every = np.arange(count)
        whole[every, :, every, :] += seen
        return whole.reshape(count * numbers, -1)

    def cost(self, scatter: Scatter) -> float:
        """Minus the log likelihood, up to a constant."""
        seen, weighted, cost = self._seen(scatter)
        root = linalg.cholesky(self._precision(seen), lower=True, overwrite_a=True, check_finite=False)
        white = linalg.solve_triangular(root, weighted.ravel(), lower=True, check_finite=False)
        return cost + float(np.log(np.diagonal(root)).sum() - white @ white / 2)

    def seen(self, scatter: Scatter) -> "Others":
        """The distribution of the numbers given all curves."""
        seen, weighted, _ = self._seen(scatter)
        count, numbers = weighted.shape
        whole = np.asarray(np.linalg.inv(self._precision(seen)), dtype=float)
        return Others(
            neighbours=self,
            seen=seen,
            weighted=weighted,
            mean=(whole @ weighted.ravel()).reshape(count, numbers),
            covariance=whole.reshape(count, numbers, count, numbers),
        )


@dataclass(frozen=True, kw_only=True)
class Others:
    """The distribution of the numbers of all configurations, given all curves."""

    neighbours: Neighbours
    seen: Floats
    weighted: Floats
    """each curve's precision of its own numbers, times their means"""
    mean: Floats
    covariance: Floats
    """of the numbers of all configurations, given all curves"""

    def of(self, index: int) -> Expected:
        """What to expect of one of the configurations, given the other curves."""
        after = np.linalg.inv(self.covariance[index, :, index, :])
        covariance = np.linalg.inv(after - self.seen[index])
        mean = covariance @ (after @ self.mean[index] - self.weighted[index])
        return Expected(mean=mean, covariance=(covariance + covariance.T) / 2)

    def at(self, places: Floats) -> list[Expected]:
        """What to expect of other configurations, one place per row, given all curves."""
        weight, left = self.neighbours.weights(places)
        mean, numbers = weight @ self.mean, self.mean.shape[1]
        covariance = left[:, None, None] * np.eye(numbers)
        for one in range(numbers):
            half = np.tensordot(weight, self.covariance[:, one], axes=1)
            covariance[:, one] += (half * weight[:, :, None]).sum(axis=1)
        if not self.neighbours.dense:
            mean[:, -1], covariance[:, -1], covariance[:, :, -1] = 0.0, 0.0, 0.0
            covariance[:, -1, -1] = 1.0
        return [Expected(mean=m, covariance=c) for m, c in zip(mean, covariance, strict=True)]

"""How well a law fits: the relative deviation δ = (ε̂ − ε)/ε, overall, per configuration and per region."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prunecast.laws.points import Floats, Integers, Points

REGIONS = ("low plateau", "power law", "high plateau")
LEAST_RMS = 1e-4
"""Smaller deviations are rounding errors; rows without noise may be fitted exactly."""
LOW_EDGE, HIGH_EDGE = 1.1, 0.9
"""The low plateau ends where ε̂ passes 1.1 ε_np, the high plateau begins where it passes 0.9 ε↑."""


@dataclass(frozen=True, kw_only=True)
class Deviation:
    """Mean μ and standard deviation σ of δ over some rows."""

    mean: float
    """μ, as a share: 0.01 is 1%"""
    std: float
    """σ, as a share"""
    rows: int
    """how many rows it is over"""

    def __str__(self) -> str:
        """μ ± σ in percent."""
        return f"{self.mean:+.1%} ± {self.std:.1%}" if self.rows else "no rows"

    @property
    def rms(self) -> float:
        """√(μ² + σ²), the size of a typical miss."""
        return float(np.hypot(self.mean, self.std))


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """The scatter of the measurements, which no law can beat."""

    replicate: float
    """relative standard deviation of a single training run around the mean of its replicates"""
    fit: float
    """the same for the rows fitted: means over replicates, with the noise of ε_np added where it counts"""


def relative(log_estimate: Floats, points: Points) -> Floats:
    """δ of every row."""
    return np.expm1(log_estimate - points.log_error)


def deviation(delta: Floats) -> Deviation:
    """μ and σ of some deviations."""
    if not len(delta):
        return Deviation(mean=float("nan"), std=float("nan"), rows=0)
    return Deviation(mean=float(delta.mean()), std=float(delta.std()), rows=len(delta))


def likelihood_shares(rms: Mapping[str, float], configurations: int) -> dict[str, float]:
    """Each form's share of the likelihood of left-out configurations, from the rms of log ε by which it misses them.

    The rows of a configuration deviate together, so each configuration counts as one observation.
    """
    least = {name: max(own, LEAST_RMS) for name, own in rms.items()}
    likelihood = {name: (min(least.values()) / own) ** configurations for name, own in least.items()}
    return {name: own / sum(likelihood.values()) for name, own in likelihood.items()}


def region(log_estimate: Floats, log_unpruned: Floats, log_high: float) -> Integers:
    """The index into REGIONS of every estimate."""
    low = log_estimate < log_unpruned + np.log(LOW_EDGE)
    high = log_estimate > log_high + np.log(HIGH_EDGE)
    return np.where(high, 2, np.where(low, 0, 1))


def by_group(delta: Floats, group: Integers, count: int) -> list[Deviation]:
    """μ and σ of each group."""
    ordered = np.argsort(group, kind="stable")
    ends = np.cumsum(np.bincount(group, minlength=count))[:-1]
    return [deviation(delta[rows]) for rows in np.split(ordered, ends)]


def noise_floor(noise: float | None, unpruned_slope: Floats, points: Points) -> NoiseFloor | None:
    """σ of replicates, and √mean(σ²/R + (∂log ε̂/∂log ε_np)²·σ²/R₀) for the rows fitted.

    A level-0 row is ε_np itself, so the two noises there are the same and cancel.
    """
    if noise is None:
        return None
    row_noise = 1 / points.replicates
    shared = unpruned_slope**2 / points.unpruned_replicates[points.configuration]
    variance: NDArray[np.float64] = np.where(points.density < 1, row_noise + shared, 0.0)
    return NoiseFloor(replicate=noise, fit=noise * float(np.sqrt(variance.mean())))

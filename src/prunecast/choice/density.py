"""How far a network can be pruned: the smallest density at which a law still promises an error."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prunecast.choice.sizes import Sizes
from prunecast.laws import Fit, formulas
from prunecast.laws.forms import log_scale
from prunecast.laws.points import Floats

LEAST = 1e-6
"""No density below this is ever considered."""
GRID, MOST_STEPS, EXACT = 400, 60, 1e-13
"""A root is bracketed on a grid and then found to this accuracy in log density."""


def log_error(fit: Fit, sizes: Sizes, density: Floats) -> Floats:
    """log ε̂ of each network at its density."""
    return np.asarray(fit.form().log_error(fit.theta()[None], sizes.points(fit, density))[0])


def smallest_density(fit: Fit, sizes: Sizes, log_target: Floats, curves: "Curves | None" = None) -> Floats:
    """The smallest density of each network whose ε̂ is at most the target; infinite where none is.

    Eq. 2 is monotone in density and solved in closed form. Other laws may dip first: the smallest root is bracketed
    on a grid and found to rounding. Who asks for many targets gives the networks' `curves`.
    """
    if fit.law != "dip":
        return _closed(fit, sizes, log_target)
    return _bracketed(fit, sizes, np.broadcast_to(log_target, (len(sizes),)), curves or Curves.of(fit, sizes))


def _closed(fit: Fit, sizes: Sizes, log_target: Floats) -> Floats:
    form, theta = fit.form(), fit.theta()[None]
    points = sizes.points(fit, np.ones(len(sizes)))
    gamma = np.exp(theta[:, 1:2])
    high, low = formulas.transitions(
        theta[:, :1] - points.log_unpruned, gamma, theta[:, 2:3], log_scale(form, theta, points)
    )
    density = formulas.density_of(points.log_unpruned, log_target, high[0], low[0], float(gamma[0, 0]))
    return np.where(density > 1, np.inf, np.maximum(density, LEAST))


def _bracketed(fit: Fit, sizes: Sizes, log_target: Floats, curves: "Curves") -> Floats:
    excess = curves.log_error - log_target
    met = excess <= 0
    first = met.argmax(axis=0)
    density = np.where(met.any(axis=0), LEAST, np.inf)
    crossing = np.flatnonzero(first)
    end = first[crossing]
    networks, aims = sizes[crossing], log_target[crossing]
    density[crossing] = np.exp(
        _root(
            lambda at: log_error(fit, networks, np.exp(at)) - aims,
            (np.log(curves.density[end - 1]), np.log(curves.density[end])),
            (excess[end - 1, crossing], excess[end, crossing]),
        )
    )
    return density


def _root(
    function: Callable[[Floats], Floats], ends: tuple[Floats, Floats], values: tuple[Floats, Floats]
) -> Floats:
    """Where functions change sign between two ends: false position, an end that stays put counting half (Illinois)."""
    (last, other), (here, there) = ends[::-1], values[::-1]
    for _ in range(MOST_STEPS):
        slope = np.where(here == there, 1.0, here - there)
        tried = last - here * (last - other) / slope
        if (np.abs(tried - last) <= EXACT).all():
            return tried
        value = function(tried)
        passed = (value > 0) != (here > 0)
        other, there = np.where(passed, last, other), np.where(passed, here, there / 2)
        last, here = tried, value
    return last


@dataclass(frozen=True, kw_only=True)
class Curves:
    """The pruning curves of many networks on one grid of densities, from the lowest up."""

    density: Floats
    log_error: Floats
    """shape (densities, networks)"""

    @classmethod
    def of(cls, fit: Fit, sizes: Sizes) -> "Curves":
        """Evaluate a law once on the whole grid."""
        density = np.geomspace(LEAST, 1.0, GRID)
        every = np.tile(np.arange(len(sizes)), GRID)
        values = log_error(fit, sizes[every], np.repeat(density, len(sizes)))
        return cls(density=density, log_error=values.reshape(GRID, len(sizes)))

    def inverse(self, log_targets: Floats) -> Floats:
        """The smallest density that meets each target, to the grid's accuracy: shape (targets, networks)."""
        falling = np.minimum.accumulate(self.log_error, axis=0)
        log_density = np.log(self.density)
        columns = [self._one(falling[:, i], log_density, log_targets) for i in range(falling.shape[1])]
        return np.array(columns).T

    @staticmethod
    def _one(falling: Floats, log_density: Floats, log_targets: Floats) -> Floats:
        first = np.searchsorted(-falling, -log_targets, side="left")
        at, before = np.minimum(first, len(falling) - 1), np.clip(first - 1, 0, len(falling) - 1)
        drop = falling[before] - falling[at]
        share = np.where(drop > 0, (falling[before] - log_targets) / np.where(drop > 0, drop, 1.0), 1.0)
        inside = log_density[before] + np.clip(share, 0.0, 1.0) * (log_density[at] - log_density[before])
        return np.where(first < len(falling), np.exp(inside), np.inf)


def least_log_error(fit: Fit, sizes: Sizes) -> float:
    """The least log ε̂ of all networks at any density; Eq. 2 has it where nothing is pruned, other laws may dip."""
    if fit.law != "dip":
        return float(log_error(fit, sizes, np.ones(len(sizes))).min())
    return float(Curves.of(fit, sizes).log_error.min())


def inverse(fit: Fit, sizes: Sizes, log_targets: Floats) -> Floats:
    """`smallest_density` for many targets at once, shape (targets, networks); exact for Eq. 2, else to 0.1%."""
    if fit.law != "dip":
        return _closed(fit, sizes, log_targets[:, None])
    return Curves.of(fit, sizes).inverse(log_targets)

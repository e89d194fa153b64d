"""The law that follows the dip: Eq. 2 over a low plateau that sinks as pruning begins."""

from dataclasses import dataclass

import numpy as np

from prunecast.laws import formulas
from prunecast.laws.eq2 import eq2
from prunecast.laws.forms import Parameter, fill, log_scale
from prunecast.laws.points import Floats, Points
from prunecast.laws.words import SYMBOLS

NU, DIP, DIP_RATIO = "nu", "dip", "dip_ratio"
TELLING_SPAN = 4.0
"""Dataset sizes that span less than this cannot tell ν, which would run away when a larger one is predicted."""


@dataclass(frozen=True, kw_only=True)
class Sinking:
    """Eq. 2 with ε_np replaced by ε_low(d) = ε_np · (1 − a(1 − d²)), a = A / (1 + n/(ρM)).

    The dip is deepest, A, where there are few examples for the M weights of the unpruned network, and half as deep at ρ
    examples a weight. The invariant also feels the data, m* = l^φ w^ψ (n/N)^ν d. Where n/M does not vary ρ is left out
    and a = A, where n hardly varies ν is left out. With A = 0 and ν = 0 this is Eq. 2.
    """

    parameters: tuple[Parameter, ...]
    axes: tuple[str, ...]
    name: str = "dip"

    def log_error(self, theta: Floats, points: Points) -> Floats:
        """Log ε̂."""
        sunk, _ = self._sunk(theta, points)
        return np.asarray(self._rows(theta, points, points.log_unpruned, sunk)[0].log_error)

    def stack(self, theta: Floats, points: Points, log_unpruned: Floats | None = None) -> Floats:
        """The derivatives of `formulas.pruned_error` through the sinking plateau, and log ε̂."""
        sunk, share = self._sunk(theta, points)
        measured = points.log_unpruned if log_unpruned is None else log_unpruned
        rows, height = self._rows(theta, points, measured, sunk)
        stack = fill(self, theta, points, rows, height)
        column = 3 + len(self.axes)
        stack[:, column] = (rows.upper - 1) * sunk / (1 - sunk)
        if share is not None:
            stack[:, column + 1] = stack[:, column] * points.spread(share)
        return stack

    def _rows(
        self, theta: Floats, points: Points, log_unpruned: Floats, sunk: Floats
    ) -> tuple[formulas.PrunedError, Floats]:
        """Eq. 2 over the sunken plateau, and log(ε↑/ε_low), both of every row."""
        log_low = points.spread(log_unpruned) + np.log1p(-sunk)
        gamma, height = np.exp(theta[:, 1:2]), theta[:, :1] - log_low
        scale = points.spread(log_scale(self, theta, points))
        high, low = formulas.transitions(height, gamma, theta[:, 2:3], scale)
        return formulas.pruned_error(log_low, points.inverse_square_density, high, low, gamma), height

    def unpruned_slope(self, stack: Floats) -> Floats:
        """∂log ε̂/∂log ε_np = 1 − ∂log ε̂/∂log ε↑, as ε̂ is homogeneous of degree one in (ε_np, ε↑)."""
        return np.asarray(1 - stack[:, 0])

    def _sunk(self, theta: Floats, points: Points) -> tuple[Floats, Floats | None]:
        """a(1 − d²) of every row, and ∂log a/∂log ρ of every configuration."""
        column = 3 + len(self.axes)
        deepest = np.exp(theta[:, column : column + 1]) * np.ones((1, points.configurations))
        share = None
        if len(self.parameters) > column + 1:
            ratio = points.num_examples / points.weights / np.exp(theta[:, column + 1 : column + 2])
            deepest, share = deepest / (1 + ratio), ratio / (1 + ratio)
        return points.spread(deepest) * (1 - points.density**2), share


def dip(points: Points, metric: str = "error") -> Sinking:
    """The law with the parameters that the table at hand can tell."""
    plain = eq2(points, metric)
    span = float(points.num_examples.max() / points.num_examples.min())
    ratio = points.num_examples / points.weights
    exponents, own = [], [Parameter(name=DIP, symbol=SYMBOLS[DIP], lower=1e-6, upper=0.9)]
    if span >= TELLING_SPAN:
        exponents.append(Parameter(name=NU, symbol=SYMBOLS[NU], lower=-1.0, upper=2.0, positive=False))
    if float(np.ptp(np.log(ratio))) > 0:
        lower, upper = float(ratio.min()) / 1e3, float(ratio.max()) * 1e3
        own.append(Parameter(name=DIP_RATIO, symbol=SYMBOLS[DIP_RATIO], lower=lower, upper=upper))
    return Sinking(
        parameters=(*plain.parameters, *exponents, *own),
        axes=(*plain.axes, *(["num_examples"] if exponents else [])),
    )

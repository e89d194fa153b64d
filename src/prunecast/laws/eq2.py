"""Eq. 2 for the table at hand: which exponents it has and where its parameters are searched."""

import numpy as np

from prunecast.laws.forms import Joint, Parameter
from prunecast.laws.points import Points
from prunecast.laws.words import SYMBOLS

HIGH, GAMMA, SCALE, PHI, PSI = "high_error", "gamma", "p", "phi", "psi"
EXPONENT_OF = {"depth": PHI, "width": PSI}
MOST = 0.9
"""The share of configurations whose unpruned error ε↑ is not below; up to ten configurations that is all."""


def eq2(points: Points, metric: str = "error") -> Joint:
    """Eq. 2 with φ and ψ where depth and width vary; a single configuration makes it Eq. 1.

    ε↑ lies above half the largest error seen and the unpruned errors of nine configurations in ten, and below 1 (for a
    loss: a hundred times the largest seen). A network that hardly learned errs as much unpruned as others pruned to
    nothing, and must not push the plateau of all the others up.
    """
    axes = tuple(axis for axis in EXPONENT_OF if np.ptp(getattr(points, axis)) > 0)
    top = float(points.error.max())
    lowest = max(top / 2, float(np.quantile(points.unpruned, MOST, method="higher")))
    shared = (
        Parameter(
            name=HIGH, symbol=SYMBOLS[HIGH], lower=lowest, upper=100 * top if metric == "loss" else 1.0
        ),
        Parameter(name=GAMMA, symbol=SYMBOLS[GAMMA], lower=0.05, upper=20.0),
        Parameter(name=SCALE, symbol=SYMBOLS[SCALE], lower=1e-8, upper=10.0),
    )
    exponents = tuple(
        Parameter(name=name, symbol=SYMBOLS[name], lower=-2.0, upper=6.0, positive=False)
        for name in (EXPONENT_OF[axis] for axis in axes)
    )
    return Joint(
        name="eq2" if points.configurations > 1 else "eq1", parameters=(*shared, *exponents), axes=axes
    )

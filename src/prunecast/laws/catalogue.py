"""The laws a table can be fitted with, by name."""

from collections.abc import Callable
from functools import cache

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.dip import DIP, DIP_RATIO, Sinking, dip
from prunecast.laws.eq2 import GAMMA, HIGH, SCALE, eq2
from prunecast.laws.forms import Joint, Parameter, PruningForm, bounds
from prunecast.laws.points import Floats, Points

LAWS: dict[str, Callable[[Points, str], PruningForm]] = {"eq2": eq2, "dip": dip}
RANDOM_STARTS = 7
POSITIVE = {HIGH, GAMMA, SCALE, DIP, DIP_RATIO}


def build(law: str, points: Points, metric: str) -> PruningForm:
    """A law with the parameters and bounds for some points."""
    if law not in LAWS:
        raise PrunecastError(f"no law is called {law!r}; there are {', '.join(LAWS)}")
    return LAWS[law](points, metric)


@cache
def named(law: str, names: tuple[str, ...], axes: tuple[str, ...]) -> PruningForm:
    """A law for evaluation alone, from the names of its parameters."""
    parameters = tuple(
        Parameter(name=name, symbol=name, lower=1e-300, upper=1e300, positive=name in POSITIVE)
        for name in names
    )
    return (
        Sinking(parameters=parameters, axes=axes) if law == "dip" else Joint(parameters=parameters, axes=axes)
    )


def starts(form: PruningForm, points: Points, seed: int = 0) -> Floats:
    """One start read off the data and a few spread over the bounds."""
    lower, upper = bounds(form)
    read_off = {
        HIGH: np.log(points.error.max()),
        GAMMA: np.log(0.6),
        SCALE: np.log(np.sqrt(points.density.min()) / 10),
        "phi": 1.0,
        "psi": 1.0,
        "nu": 0.1,
        DIP: np.log(0.1),
        DIP_RATIO: np.log(np.median(points.num_examples / points.weights)),
    }
    guess = np.array([read_off[parameter.name] for parameter in form.parameters])
    spread = np.random.default_rng(seed).uniform(lower, upper, (RANDOM_STARTS, len(lower)))
    return np.vstack([np.clip(guess, lower, upper), spread])

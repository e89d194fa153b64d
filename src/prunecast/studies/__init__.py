"""The paper's studies of the law, each a function of a table that returns its numbers."""

from prunecast.studies.dips import Dips, dips
from prunecast.studies.extrapolation import Extrapolation, extrapolation
from prunecast.studies.following import Following, following
from prunecast.studies.forms import Forms, forms
from prunecast.studies.invariance import Invariance, invariance
from prunecast.studies.noise import Noise, noise
from prunecast.studies.optimality import Optimality, optimality
from prunecast.studies.sensitivity import Sensitivity, sensitivity

__all__ = [
    "Dips",
    "Extrapolation",
    "Following",
    "Forms",
    "Invariance",
    "Noise",
    "Optimality",
    "Sensitivity",
    "dips",
    "extrapolation",
    "following",
    "forms",
    "invariance",
    "noise",
    "optimality",
    "sensitivity",
]

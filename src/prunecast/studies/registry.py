"""The studies by name, in the order in which the command line and the docs list them.

To add a study, write its module and add a line here.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prunecast.studies.dips import dips
from prunecast.studies.extrapolation import extrapolation
from prunecast.studies.forms import forms
from prunecast.studies.invariance import invariance
from prunecast.studies.noise import noise
from prunecast.studies.optimality import optimality
from prunecast.studies.sensitivity import sensitivity


@dataclass(frozen=True)
class Study:
    """A study: a function of a table that returns its numbers as a dataclass."""

    function: Callable[..., Any]
    title: str
    """the question that it answers"""
    summary: str
    """what it does, in a few words"""

    @property
    def name(self) -> str:
        """The word that selects it."""
        return self.function.__name__

    @property
    def takes_law(self) -> bool:
        """Whether the function has an argument `law`; else the study fixes its laws itself."""
        return "law" in inspect.signature(self.function).parameters


_LISTED = (
    Study(sensitivity, "How many measurements does a fit need?", "how many measurements a fit needs"),
    Study(
        extrapolation, "Does the law extrapolate from small to large?", "fit small networks, predict the rest"
    ),
    Study(invariance, "Does the invariant hold?", "contours of constant error, constancy of parameters"),
    Study(forms, "Does another form predict better?", "the law against other forms, by region"),
    Study(dips, "Does light pruning help?", "falls below the unpruned error and the bias they leave"),
    Study(
        optimality, "Does the law find the smallest networks?", "predicted against measured smallest networks"
    ),
    Study(noise, "How noisy are the measurements?", "the spread of replicates, by region"),
)
STUDIES = {study.name: study for study in _LISTED}

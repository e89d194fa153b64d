"""The paper's studies of the law, each a function of a table that returns its numbers, and what to train next."""

from prunecast.studies import findings
from prunecast.studies.dips import Dips, dips
from prunecast.studies.extrapolation import PAPER_SPLIT, Extrapolation, Step, extrapolation
from prunecast.studies.forms import Forms, forms
from prunecast.studies.invariance import Invariance, invariance
from prunecast.studies.next_training import (
    NextTraining,
    Suggestion,
    SuggestionKind,
    expected_regret,
    next_training,
)
from prunecast.studies.noise import Noise, noise
from prunecast.studies.optimality import Optimality, optimality
from prunecast.studies.registry import STUDIES, Study
from prunecast.studies.sensitivity import Sample, Sensitivity, sensitivity

__all__ = [
    "PAPER_SPLIT",
    "STUDIES",
    "Dips",
    "Extrapolation",
    "Forms",
    "Invariance",
    "NextTraining",
    "Noise",
    "Optimality",
    "Sample",
    "Sensitivity",
    "Step",
    "Study",
    "Suggestion",
    "SuggestionKind",
    "dips",
    "expected_regret",
    "extrapolation",
    "findings",
    "forms",
    "invariance",
    "next_training",
    "noise",
    "optimality",
    "sensitivity",
]

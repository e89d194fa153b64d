"""The paper's studies of the law, each a function of a table that returns its numbers, and what to train next."""

from prunecast.studies import findings
from prunecast.studies.dips import Dip, Dips, dips
from prunecast.studies.extrapolation import PAPER_SPLIT, Extrapolation, Step, extrapolation
from prunecast.studies.forms import Forms, FormScore, forms
from prunecast.studies.invariance import Constancy, Contours, Invariance, invariance
from prunecast.studies.next_training import (
    NextTraining,
    Suggestion,
    SuggestionKind,
    expected_regret,
    next_training,
)
from prunecast.studies.noise import Noise, Spread, noise
from prunecast.studies.optimality import Optimality, SmallestNetwork, optimality
from prunecast.studies.registry import STUDIES, Study
from prunecast.studies.sensitivity import Sample, Sensitivity, sensitivity

__all__ = [
    "PAPER_SPLIT",
    "STUDIES",
    "Constancy",
    "Contours",
    "Dip",
    "Dips",
    "Extrapolation",
    "FormScore",
    "Forms",
    "Invariance",
    "NextTraining",
    "Noise",
    "Optimality",
    "Sample",
    "Sensitivity",
    "SmallestNetwork",
    "Spread",
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

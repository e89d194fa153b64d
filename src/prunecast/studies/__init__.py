"""The paper's studies of the law, each a function of a table that returns its numbers, and what to train next."""

from prunecast.studies import findings
from prunecast.studies.decision import Decision, decide
from prunecast.studies.dips import Dip, Dips, dips
from prunecast.studies.extrapolation import PAPER_SPLIT, Extrapolation, Step, extrapolation, paper_split
from prunecast.studies.forms import Forms, forms
from prunecast.studies.invariance import Invariance, invariance
from prunecast.studies.noise import Noise, noise
from prunecast.studies.optimality import Optimality, optimality
from prunecast.studies.outlook import ENOUGH, SETTLED, TargetState
from prunecast.studies.refits import best_fit
from prunecast.studies.registry import STUDIES
from prunecast.studies.search_grid import (
    Grid,
    GridChain,
    NextStep,
    Reason,
    frontier_targets,
    spread_out,
    stop_error,
)
from prunecast.studies.sensitivity import Sample, Sensitivity, sensitivity

__all__ = [
    "ENOUGH",
    "PAPER_SPLIT",
    "SETTLED",
    "STUDIES",
    "Decision",
    "Dip",
    "Dips",
    "Extrapolation",
    "Forms",
    "Grid",
    "GridChain",
    "Invariance",
    "NextStep",
    "Noise",
    "Optimality",
    "Reason",
    "Sample",
    "Sensitivity",
    "Step",
    "TargetState",
    "best_fit",
    "decide",
    "dips",
    "extrapolation",
    "findings",
    "forms",
    "frontier_targets",
    "invariance",
    "noise",
    "optimality",
    "paper_split",
    "sensitivity",
    "spread_out",
    "stop_error",
]

"""The scaling law of pruning: fit it, judge it, predict with it, compare it."""

from prunecast.laws.compare import Score, compare
from prunecast.laws.dense import DenseLaw
from prunecast.laws.fitting import fit
from prunecast.laws.identify import Note
from prunecast.laws.judge import Deviation, NoiseFloor
from prunecast.laws.predict import Prediction
from prunecast.laws.result import Configuration, Fit
from prunecast.laws.saved import as_json, dumps, from_json, load
from prunecast.laws.singles import SingleFit, fit_each

__all__ = [
    "Configuration",
    "DenseLaw",
    "Deviation",
    "Fit",
    "NoiseFloor",
    "Note",
    "Prediction",
    "Score",
    "SingleFit",
    "as_json",
    "compare",
    "dumps",
    "fit",
    "fit_each",
    "from_json",
    "load",
]

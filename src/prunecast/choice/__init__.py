"""Which network to train and how far to prune it."""

from prunecast.choice import findings
from prunecast.choice.answer import Choice, Chooser, Matching, choose, choose_each
from prunecast.choice.costs import known_measures, sizes_along, sizes_at
from prunecast.choice.counts import Counter, Counts, Naming, counter, naming, removes_channels
from prunecast.choice.findings import AboutTarget, NetworkBeyondMeasured
from prunecast.choice.latency import FEWEST_SIZES, POOR_LATENCY, OtherLatency
from prunecast.choice.optima import Frontier, Optimum, frontier, optimum
from prunecast.choice.options import Network, Options, kept_per_level, predicted_options, quantile
from prunecast.choice.question import (
    ALLOW_AROUND,
    DEFAULT_CONFIDENCE,
    DEFAULT_SIZES,
    PARAMETERS,
    Measure,
    Question,
    SizeRange,
    as_fit,
    as_measure,
    as_size_range,
    ceiling,
    check_target,
    examples_for,
    predict,
    question_for,
    validated,
)
from prunecast.choice.search import Inversion, smallest_density
from prunecast.choice.sizes import Candidates, candidates, candidates_at, inside, size_grid

__all__ = [
    "ALLOW_AROUND",
    "DEFAULT_CONFIDENCE",
    "DEFAULT_SIZES",
    "FEWEST_SIZES",
    "PARAMETERS",
    "POOR_LATENCY",
    "AboutTarget",
    "Candidates",
    "Choice",
    "Chooser",
    "Counter",
    "Counts",
    "Frontier",
    "Inversion",
    "Matching",
    "Measure",
    "Naming",
    "Network",
    "NetworkBeyondMeasured",
    "Optimum",
    "Options",
    "OtherLatency",
    "Question",
    "SizeRange",
    "as_fit",
    "as_measure",
    "as_size_range",
    "candidates",
    "candidates_at",
    "ceiling",
    "check_target",
    "choose",
    "choose_each",
    "counter",
    "examples_for",
    "findings",
    "frontier",
    "inside",
    "kept_per_level",
    "known_measures",
    "naming",
    "optimum",
    "predict",
    "predicted_options",
    "quantile",
    "question_for",
    "removes_channels",
    "size_grid",
    "sizes_along",
    "sizes_at",
    "smallest_density",
    "validated",
]

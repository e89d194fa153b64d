"""Pruned networks to choose among, as arrays, with predicted or measured errors."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.choice.counts import Arrays, Counter
from prunecast.choice.latency import OtherLatency
from prunecast.choice.question import Measure
from prunecast.choice.sizes import Candidates
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, Floats, Integers, Mask, predictive

MET = 1e-6
"""Logarithms of errors and densities that differ by less count as equal."""
SIMPLE, ROUNDED = 12, Fraction(1, 2000)
"""A share per level, which tables round to three digits, is read as a fraction with a small denominator this near."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """One pruned network: its error, its size and the cost of training it."""

    depth: float
    """the number of layers, as in the table"""
    width: float
    """the width, as in the table"""
    num_examples: float
    """the number of training examples"""
    density: float
    """the share of prunable weights that is kept"""
    level: int
    """the level of pruning that reaches this density"""
    error: float
    """as measured, or as the law estimates it"""
    expected_error: float
    """the expected error of a new training run; a measured error is shrunk towards the law"""
    interval: tuple[float, float]
    """the interval that 95% of new training runs fall in"""
    probability: float | None
    """the probability that a new training run meets the target"""
    source: Literal["law", "measured"]
    """`measured` if this network was trained"""
    nonzero_parameters: float
    """the prunable weights that are kept"""
    stored_parameters: float
    """non-zero weights and all parameters that are never pruned"""
    paper_size: float
    """l·w²·d"""
    multiply_adds: float | None
    """per image, if zeros are skipped; None if they are not known"""
    unpruned_error: float
    """the error at density 1"""
    unpruned_source: Literal["measured", "predicted"]
    """predicted if it comes from the dense law and similar sizes"""
    expected_unpruned_error: float
    """what the law starts from; a measured error is shrunk towards the dense law and similar sizes"""
    extrapolated: bool
    """whether depth, width and number of examples, two at a time, or the density lie outside the measured range"""
    training_runs: int
    """training runs: levels + 1"""
    training_cost: float
    """in runs of the costliest measured network: runs × multiply-adds × examples, relative"""
    network_epochs: float | None
    """epochs of all training runs, later ones from the rewind point; None unless recipe and method are built in"""
    bytes: float | None = None
    """bytes of its dense tensors, if the table has them"""
    latency_ms: float | None = None
    """latency of one call, from the table or predicted from the sizes that were timed"""
    latency_interval: tuple[float, float] | None = None
    """95% of predicted latencies fall in this interval; None if the latency comes from the table"""
    other_latencies: tuple[OtherLatency, ...] = ()
    """latency of one call in each other runtime and batch of the table"""


@dataclass(frozen=True, kw_only=True)
class Options(Arrays):
    """Pruned networks, one entry each."""

    networks: Candidates
    density: Floats
    log_error: Floats
    """log ε as measured, or as the law estimates it"""
    log_expected: Floats
    """the expected log ε of a new run; measured errors are shrunk towards the law"""
    spread: Floats
    """standard deviation of log ε of a single new run"""
    below: Floats
    """standard deviation below the expected log ε, for the lower end of the interval"""
    least_beside: Floats
    """the lowest log error of the measured neighbours in density; −∞ if the size was not measured"""
    measured: Mask
    """whether this network was measured; else the law estimates it"""

    def __len__(self) -> int:
        return len(self.density)

    @property
    def nonzero(self) -> Floats:
        """Non-zero prunable weights."""
        return self.density * self.networks.counts.weights

    def levels(self, kept: Fraction, *, exact: bool) -> Integers:
        """The level that reaches each density if every level keeps this share of the weights, rounded down.

        The last level may prune less. Weights that are not `exact` counts are not rounded.
        """
        smooth = np.asarray(np.ceil(np.log(self.density) / np.log(float(kept)) - 1e-4), dtype=np.int64)
        surviving, wanted = self.networks.counts.weights.copy(), np.round(self.nonzero)
        counted = exact & (surviving == np.round(surviving)) & (wanted >= 1)
        levels = np.zeros(len(self), dtype=np.int64)
        while (left := counted & (surviving > wanted)).any():
            levels += left
            surviving = np.where(left, np.floor(surviving * kept.numerator / kept.denominator), surviving)
        return np.where(counted, levels, smooth)

    def probability(self, fit: Fit, log_target: float) -> Floats:
        """The probability that a new run's error is at most the target."""
        score = (log_target - self.log_expected) / np.maximum(self.spread, 1e-300)
        return np.asarray(special.stdtr(fit.spread.degrees, score))

    def log_bound(self, fit: Fit, confidence: float) -> Floats:
        """The log error that a new run stays below with this probability."""
        return self.log_expected + quantile(fit, confidence) * self.spread


def quantile(fit: Fit, confidence: float) -> float:
    """Student's t at a confidence; zero at one half."""
    return 0.0 if confidence == 0.5 else float(special.stdtrit(fit.spread.degrees, confidence))


def kept_per_level(fit: Fit) -> Fraction:
    """The share of weights that a level keeps, as an exact fraction: 2/3 where the table shows 0.667."""
    shown = Fraction(min(max(fit.kept_per_level, 0.001), 0.999))
    simple, exact = shown.limit_denominator(SIMPLE), shown.limit_denominator(1000)
    return simple if abs(simple - exact) <= ROUNDED else exact


def predicted_options(fit: Fit, networks: Candidates, density: Floats) -> Options:
    """Predictions for these networks at these densities; the curves of measured networks count, too."""
    found = predictive(fit).of(networks.points(fit, density), networks.own, networks.unpruned_std)
    return Options(
        networks=networks,
        density=density,
        log_error=found.log_error,
        log_expected=found.log_error,
        spread=found.spread,
        below=found.below,
        least_beside=least_beside(fit, networks, density),
        measured=np.zeros(len(networks), dtype=bool),
    )


def measured_options(fit: Fit, networks: Candidates) -> Options:
    """The rows of these networks that were measured, with their own errors."""
    place = {int(index): at for at, index in enumerate(networks.own) if index >= 0}
    rows = [(at, *row) for index, at in place.items() for row in fit.configurations[index].curve]
    at, density, error, _ = np.array(rows, dtype=float).reshape(-1, 4).T
    options = predicted_options(fit, networks[at.astype(np.int64)], density)
    return replace(options, log_error=np.log(error), measured=np.ones(len(rows), dtype=bool))


def least_beside(fit: Fit, networks: Candidates, density: Floats) -> Floats:
    """The lowest log error of each network's measured neighbours in density; −∞ for sizes that were not measured.

    If it is above a target, the measurements show that the network misses the target.
    """
    found, own = np.full(len(networks), -np.inf), networks.own
    for index in np.unique(own[own >= 0]):
        rows = np.flatnonzero(own == index)
        there, error, _ = np.array(sorted(fit.configurations[index].curve)).reshape(-1, 3).T
        known, asked = np.log(there), np.log(density[rows])
        errors = np.log(np.concatenate([[np.inf], error, [np.inf]]))
        below = np.searchsorted(known, asked + MET, side="right")
        above = np.searchsorted(known, asked - MET, side="left") + 1
        found[rows] = np.minimum(errors[below], errors[above])
    return found


def size_line(measure: Measure, networks: Candidates) -> tuple[Floats, Floats]:
    """Offset and slope of a measure: without its weights' zeros, a network of density d has size offset + slope · d."""
    counts, nothing = networks.counts, np.zeros(len(networks))
    if measure is Measure.STORED:
        return counts.fixed, counts.weights
    if measure is Measure.NONZERO:
        return nothing, counts.weights
    if measure is Measure.PAPER:
        return nothing, networks.depth * networks.width**2
    if np.isnan(counts.multiply_adds).any():
        raise PrunecastError(
            "multiply-adds are known for built-in families and tables with a column multiply_adds; minimise stored, "
            "nonzero or paper instead"
        )
    return nothing, counts.multiply_adds


def whole_weights(counter: Counter, networks: Candidates, density: Floats, *, up: bool) -> Floats:
    """The nearest densities that keep a whole number of weights, if weights are counted."""
    if not counter.exact:
        return density
    weights = networks.counts.weights
    exact = density * weights
    count = np.ceil(exact - 1e-6) if up else np.floor(exact + 1e-6)
    return np.asarray(np.clip(count, 1, weights) / weights)

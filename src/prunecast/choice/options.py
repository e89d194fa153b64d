"""Pruned networks to choose among, as arrays: what a law predicts of them, or what was measured."""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.choice.counts import Arrays, Counter
from prunecast.choice.latency import OtherLatency
from prunecast.choice.question import Measure, as_measure
from prunecast.choice.sizes import Candidates
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, Floats, Integers, Mask, predictive

MET = 1e-6
"""Logarithms of errors and densities that differ by less are the same."""
SIMPLE, ROUNDED = 12, Fraction(1, 2000)
"""A share per level, which a table shows to three digits, is a fraction with such a denominator if one is that near."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """One pruned network: how good and how large it is, and what it costs to get."""

    depth: float
    """the number of layers, as in the table"""
    width: float
    """the width, as in the table"""
    num_examples: float
    """the number of training examples"""
    density: float
    """the share of prunable weights that is kept"""
    level: int
    """how many levels of pruning lead to this density"""
    error: float
    """as measured, or as the law estimates it"""
    expected_error: float
    """expected of a new training run; a measured error is shrunk towards the law"""
    interval: tuple[float, float]
    """the interval that 95% of new training runs fall in"""
    probability: float | None
    """that a new training run meets the target"""
    source: Literal["law", "measured"]
    """measured if this very network was trained"""
    nonzero_parameters: float
    """the prunable weights that are kept"""
    stored_parameters: float
    """these, and all parameters that are never pruned"""
    paper_size: float
    """l·w²·d"""
    multiply_adds: float | None
    """per image, if zeros are skipped; None if they are not known"""
    unpruned_error: float
    """the error at density 1"""
    unpruned_source: Literal["measured", "predicted"]
    """predicted if it comes from the dense law and similar sizes"""
    expected_unpruned_error: float
    """what the law uses; a measured one is shrunk towards the dense law and similar sizes"""
    extrapolated: bool
    """whether depth, width and number of examples, two at a time, or the density lie outside the measured range"""
    training_runs: int
    """training runs: levels + 1"""
    training_cost: float
    """in runs of the costliest measured network: runs × multiply-adds × examples, relative"""
    network_epochs: float | None
    """of all training runs, later ones from the rewind point on; None unless recipe and method are built in"""
    bytes: float | None = None
    """of its dense tensors, if the table has them"""
    latency_ms: float | None = None
    """of one call, if the table has it, or as predicted from the sizes that were timed"""
    latency_interval: tuple[float, float] | None = None
    """in which 95% of predicted networks fall; None where the latency is the table's own"""
    other_latencies: tuple[OtherLatency, ...] = ()
    """of one call in each other runtime and batch that the table has"""


@dataclass(frozen=True, kw_only=True)
class Options(Arrays):
    """Pruned networks, one entry each."""

    networks: Candidates
    density: Floats
    log_error: Floats
    """log ε as measured, or as the law estimates it"""
    log_expected: Floats
    """log ε to expect of a new run: measured ones are shrunk towards the law"""
    spread: Floats
    """standard deviation of log ε of a single new run"""
    below: Floats
    """standard deviation of what lies below log ε to expect, for the lower end of its interval"""
    least_beside: Floats
    """the least log error of its measured neighbours in density; −∞ where the size was not measured"""
    measured: Mask
    """whether this very network was measured; else the law estimates it"""

    def __len__(self) -> int:
        return len(self.density)

    @property
    def nonzero(self) -> Floats:
        """Non-zero prunable weights."""
        return self.density * self.networks.counts.weights

    def levels(self, kept: Fraction, *, exact: bool) -> Integers:
        """Levels that lead to each density, where each keeps this share of the weights, rounded down to whole ones.

        The last level prunes less where needed. Where counts of weights are not `exact`, nothing is rounded.
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
    """What is predicted of these networks at these densities, by their own curves, too, where they were measured."""
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
    """Those of the networks that were trained, with their own errors; new runs scatter around what is expected."""
    place = {int(index): at for at, index in enumerate(networks.own) if index >= 0}
    rows = [(at, *row) for index, at in place.items() for row in fit.configurations[index].curve]
    at, density, error, _ = np.array(rows, dtype=float).reshape(-1, 4).T
    options = predicted_options(fit, networks[at.astype(np.int64)], density)
    return replace(options, log_error=np.log(error), measured=np.ones(len(rows), dtype=bool))


def least_beside(fit: Fit, networks: Candidates, density: Floats) -> Floats:
    """The least log error of the measured neighbours in density of networks of measured sizes; −∞ for other sizes.

    Where it lies above a target, the table refutes that the network meets it.
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


def size_line(minimise: str, networks: Candidates) -> tuple[Floats, Floats]:
    """Offset and slope of a measure: the size at density d is offset + slope · d, as far as weights are removed."""
    measure, counts, nothing = as_measure(minimise), networks.counts, np.zeros(len(networks))
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
    """Densities that keep a whole number of weights, where weights are counted."""
    if not counter.exact:
        return density
    weights = networks.counts.weights
    exact = density * weights
    count = np.ceil(exact - 1e-6) if up else np.floor(exact + 1e-6)
    return np.asarray(np.clip(count, 1, weights) / weights)

"""Pruned networks to choose among, as arrays: what a law promises of them, or what was measured."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # `stats` takes longer to import than most fits take

from prunecast.choice.counts import Counter
from prunecast.choice.luck import noise, settle_curve
from prunecast.choice.sizes import Sizes
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Integers
from prunecast.laws.predict import estimate, evaluate

MEASURES = ("stored", "nonzero", "multiply-adds", "paper")
KEPT_A_LEVEL = 0.8


@dataclass(frozen=True, kw_only=True)
class Options:
    """Pruned networks, one entry each."""

    sizes: Sizes
    density: Floats
    log_error: Floats
    """of a new training, as expected: the luck of measured ones is taken out"""
    told: Floats
    """log ε to tell: as measured, or as the law estimates it"""
    spread: Floats
    """standard deviation of log ε of a single new training"""
    row: NDArray[np.bool_]
    """whether this very network was measured; else the law estimates it"""

    def __len__(self) -> int:
        return len(self.density)

    def __getitem__(self, at: NDArray[np.generic]) -> "Options":
        arrays = {name: value[at] for name, value in vars(self).items() if name != "sizes"}
        return replace(self, sizes=self.sizes[at], **arrays)

    @property
    def level(self) -> Integers:
        """Levels of 20%, rounded up to whole weights, that lead to the density; the last one smaller where needed."""
        smooth = np.asarray(np.ceil(np.log(self.density) / np.log(KEPT_A_LEVEL) - 1e-4), dtype=np.int64)
        surviving, kept = self.sizes.counts.weights.copy(), np.round(self.nonzero)
        counted = (surviving == np.round(surviving)) & (kept >= 1)
        level = np.zeros(len(self), dtype=np.int64)
        while (left := counted & (surviving > kept)).any():
            level += left
            surviving = np.where(left, np.floor(surviving * 4 / 5), surviving)
        return np.where(counted, level, smooth)

    @property
    def nonzero(self) -> Floats:
        """Non-zero prunable weights."""
        return self.density * self.sizes.counts.weights

    def probability(self, fit: Fit, log_target: float) -> Floats:
        """The probability that a new training's error is at most the target."""
        score = (log_target - self.log_error) / np.maximum(self.spread, 1e-300)
        return np.asarray(special.stdtr(fit.spread.degrees, score))

    def promised(self, fit: Fit, confidence: float) -> Floats:
        """The log error that a new training stays below with this probability."""
        return self.log_error + quantile(fit, confidence) * self.spread


def quantile(fit: Fit, confidence: float) -> float:
    """Student's t at a confidence; zero at one half."""
    return 0.0 if confidence == 0.5 else float(special.stdtrit(fit.spread.degrees, confidence))


def join(first: Options, second: Options) -> Options:
    """Both sets of networks, the first one's first."""

    def both(a: NDArray[Any], b: NDArray[Any]) -> Any:
        return np.concatenate([a, b])

    one, two = first.sizes, second.sizes
    counts = replace(one.counts, **{n: both(v, getattr(two.counts, n)) for n, v in vars(one.counts).items()})
    sizes = replace(
        one, counts=counts, **{n: both(v, getattr(two, n)) for n, v in vars(one).items() if n != "counts"}
    )
    arrays = {n: both(v, getattr(second, n)) for n, v in vars(first).items() if n != "sizes"}
    return replace(first, sizes=sizes, **arrays)


def by_law(fit: Fit, sizes: Sizes, density: Floats) -> Options:
    """What the law says of these networks at these densities."""
    estimated, spread = estimate(fit, sizes.points(fit, density), sizes.doubt)
    row = np.zeros(len(sizes), dtype=bool)
    return Options(sizes=sizes, density=density, log_error=estimated, told=estimated, spread=spread, row=row)


def measured_rows(fit: Fit, sizes: Sizes) -> Options:
    """The networks that were trained, with their own errors; a new training scatters around what they settle to."""
    place = {
        (d, w): i
        for i, (d, w, m) in enumerate(zip(sizes.depth, sizes.width, sizes.measured, strict=True))
        if m
    }
    examples = float(sizes.num_examples[0])
    rows = [
        (place[c.depth, c.width], *row)
        for c in fit.configurations
        if np.isclose(c.num_examples, examples) and (c.depth, c.width) in place
        for row in c.curve
    ]
    index, density, error, replicates = np.array(rows, dtype=float).reshape(-1, 4).T
    own = sizes[index.astype(np.int64)]
    expected, variance = _settled(fit, own, density, np.log(error), replicates)
    return Options(
        sizes=own,
        density=density,
        log_error=expected,
        told=np.log(error),
        spread=np.sqrt(fit.spread.run**2 + variance),
        row=np.ones(len(rows), dtype=bool),
    )


def _settled(
    fit: Fit, sizes: Sizes, density: Floats, log_error: Floats, replicates: Floats
) -> tuple[Floats, Floats]:
    """What to expect of measured rows, curve by curve, and its variance."""
    estimated = evaluate(fit, fit.theta()[None], sizes.points(fit, density))[0][0]
    deviation, variance = log_error - estimated, noise(fit) ** 2 / np.maximum(replicates, 1.0)
    misfit = max(0.0, float((deviation**2 - variance).mean())) if len(deviation) else 0.0
    expected, doubt = estimated.copy(), np.zeros(len(density))
    curves = sizes.depth + 1j * sizes.width
    for curve in np.unique(curves):
        at = np.flatnonzero(curves == curve)
        settled, doubt[at] = settle_curve(density[at], deviation[at], variance[at], misfit)
        expected[at] += settled
    return expected, doubt


def line(measure: str, sizes: Sizes) -> tuple[Floats, Floats]:
    """Offset and slope of a measure in density: every measure is offset + slope · density.

    `stored` counts non-zero weights, biases and normalisation; `nonzero` the weights alone; `multiply-adds` those
    of one image if the zeros were spread evenly over the layers; `paper` is l·w²·d.
    """
    nothing = np.zeros(len(sizes))
    if measure == "stored":
        return sizes.counts.fixed, sizes.counts.weights
    if measure == "nonzero":
        return nothing, sizes.counts.weights
    if measure == "paper":
        return nothing, sizes.depth * sizes.width**2
    if measure != "multiply-adds":
        raise PrunecastError(f"no measure is called {measure!r}; there are {', '.join(MEASURES)}")
    if np.isnan(sizes.counts.multiply_adds).any():
        raise PrunecastError(
            "multiply-adds are known for built-in families only; minimise stored, nonzero or paper instead"
        )
    return nothing, sizes.counts.multiply_adds


def measured_by(measure: str, options: Options) -> Floats:
    """A measure of each pruned network."""
    offset, slope = line(measure, options.sizes)
    return offset + slope * options.density


def training_unit(counter: Counter, sizes: Sizes) -> Floats:
    """The cost of one training of each network, in trainings of the costliest measured one."""
    return np.asarray(counter.operations(sizes.counts) * sizes.num_examples / counter.costliest)


def whole_weights(counter: Counter, sizes: Sizes, density: Floats, *, up: bool) -> Floats:
    """Densities that keep a whole number of weights, where weights are counted."""
    if not counter.exact:
        return density
    exact = density * sizes.counts.weights
    count = np.ceil(exact - 1e-6) if up else np.floor(exact + 1e-6)
    return np.asarray(np.clip(count, 1, sizes.counts.weights) / sizes.counts.weights)

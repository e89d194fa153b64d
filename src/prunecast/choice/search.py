"""How far to prune each candidate: to the fewest parameters for an error, or to the lowest error within budgets.

Laws that have an inverse in closed form are inverted exactly. For other laws the density is bracketed on a grid and
bisected, so any law works.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from prunecast.choice import costs
from prunecast.choice.counts import Counter, Naming, counter, naming
from prunecast.choice.options import (
    MET,
    Network,
    Options,
    kept_per_level,
    least_beside,
    predicted_options,
    quantile,
    size_line,
    whole_weights,
)
from prunecast.choice.question import Measure, Question
from prunecast.choice.sizes import Candidates
from prunecast.laws import AXES, COVERAGE, Fit, Floats, Integers, Mask, Verdict, average, below, predictive
from prunecast.spec import METHODS, RECIPES

LEAST = 1e-6
"""No lower density is considered."""
GRID, HALVINGS = 400, 45
"""Points of the grid of densities, and how often the bracket of a density is halved."""
COARSE, CORRECTIONS = np.linspace(np.log(LEAST), 0.0, 80), 2
"""Log densities between which spreads are interpolated; steps that correct a density found so."""
MINIMUM_GRID, ZOOMS = 60, 4


def log_error(fit: Fit, networks: Candidates, density: Floats) -> Floats:
    """log ε̂ of each network at its density."""
    return average(fit, networks.points(fit, density)).log_error


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """Solves a law for the density of some networks; what does not depend on the target is computed once."""

    fit: Fit
    networks: Candidates

    def smallest_density(self, log_target: Floats) -> Floats:
        """The smallest density of each network whose ε̂ is at most its target; infinite where there is none."""
        closed = self._closed(log_target)
        return self._bracketed(log_target) if closed is None else closed

    def approximate(self, log_targets: Floats) -> Floats:
        """`smallest_density` for many targets, shape (targets, networks); to 0.1% where there is no closed form."""
        closed = self._closed(log_targets[:, None])
        if closed is not None:
            return closed
        density, curves = self._curves
        falling = np.minimum.accumulate(curves, axis=0)
        return np.array([_crossings(np.log(density), curve, log_targets) for curve in falling.T]).T

    @property
    def least_log_error(self) -> float:
        """The least log ε̂ of all networks at any density."""
        if self.fit.dips or self.fit.alternatives:
            return float(self._curves[1].min())
        return float(log_error(self.fit, self.networks, np.ones(len(self.networks))).min())

    def _closed(self, log_target: Floats) -> Floats | None:
        if self.fit.alternatives:
            return None
        points = self.networks.points(self.fit, np.ones(len(self.networks)))
        density = self.fit.form().smallest_density(self.fit.theta()[None], points, log_target)
        return None if density is None else np.where(density > 1, np.inf, np.maximum(density, LEAST))

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        """A grid of densities from the lowest up, and log ε̂ there, shape (densities, networks)."""
        density, count = np.geomspace(LEAST, 1.0, GRID), len(self.networks)
        every = self.networks[np.tile(np.arange(count), GRID)]
        return density, log_error(self.fit, every, np.repeat(density, count)).reshape(GRID, count)

    @cached_property
    def _expected(self) -> tuple[Floats, Floats, Floats]:
        """On the grid: log ε to expect, its spread at measured sizes, and the least log ε of measured neighbours.

        Between measured sizes, what the law misses changes slowly with density, so it is interpolated.
        """
        density, law = self._curves
        expected, spread, beside = law.copy(), np.zeros(law.shape), np.full(law.shape, -np.inf)
        which = np.flatnonzero(self.networks.measured)
        options = self._predicted(*_every_pair(which, density))
        for found, values in (
            (expected, options.log_expected),
            (spread, options.spread),
            (beside, options.least_beside),
        ):
            found[:, which] = values.reshape(len(which), GRID).T
        which = np.flatnonzero(~self.networks.measured)
        index, at = _every_pair(which, np.exp(COARSE))
        networks = self.networks[index]
        missed = predictive(self.fit).median(networks.points(self.fit, at), networks.own)
        missed -= log_error(self.fit, networks, at)
        expected[:, which] += _interpolated(np.log(density), missed.reshape(len(which), len(COARSE)).T)
        return expected, spread, beside

    def _bounds(self, highest: float, score: float) -> Floats:
        """On the grid: the log errors that new runs stay below with the probability of a score.

        At densities whose expected log ε is above `highest`, they are only known to be above it, too.
        """
        expected, spread, _ = self._expected
        grid = np.log(self._curves[0])
        needed = (expected <= highest) | (score < 0)
        needed[:-1] |= needed[1:]
        near = np.abs(COARSE[:, None] - grid) < COARSE[1] - COARSE[0]
        at, index = np.nonzero((near @ needed) & ~self.networks.measured)
        coarse = np.zeros((len(COARSE), len(self.networks)))
        coarse[at, index] = self._predicted(index, np.exp(COARSE[at])).spread
        return np.asarray(expected + score * (spread + _interpolated(grid, coarse)))

    def _predicted(self, index: Integers, density: Floats) -> Options:
        """Some of the networks, each at a density."""
        return predicted_options(self.fit, self.networks[index], density)

    def confident_densities(self, log_targets: Floats, confidence: float) -> Floats:
        """The smallest density at which a new run meets a target with this probability, shape (targets, networks).

        It is infinite where there is none. A density whose measured neighbours all miss the target does not count.
        """
        grid, score = np.log(self._curves[0]), quantile(self.fit, confidence)
        bounds = self._bounds(float(log_targets.max()), score)
        falling = np.minimum.accumulate(np.maximum(bounds, self._expected[2] - MET), axis=0)
        found = [np.searchsorted(-own, -log_targets) for own in falling.T]
        first = np.array(found, dtype=np.int64).reshape(len(found), len(log_targets)).T
        density = np.where(first < GRID, LEAST, np.inf)
        target, which = np.nonzero((first > 0) & (first < GRID))
        if len(which):
            at = first[target, which]
            ends, sides = (grid[at - 1], grid[at]), (bounds[at - 1, which], bounds[at, which])
            density[target, which] = np.exp(self._refined(which, ends, sides, log_targets[target], score))
        return density

    def _refined(
        self,
        which: Integers,
        ends: tuple[Floats, Floats],
        bounds: tuple[Floats, Floats],
        log_target: Floats,
        score: float,
    ) -> Floats:
        """Log densities between neighbouring grid points at which targets are met; they are met at the upper points."""
        networks, (lower, upper) = self.networks[which], ends
        slope = np.maximum(bounds[0] - bounds[1], 1e-9) / (upper - lower)
        at = np.clip(lower + (bounds[0] - log_target) / slope, lower, upper)
        refuted = np.flatnonzero(least_beside(self.fit, networks, np.exp(at)) > log_target + MET)
        if len(refuted):
            some, aims = networks[refuted], log_target[refuted]
            at[refuted] = _bisected(
                lambda there: least_beside(self.fit, some, np.exp(there)) <= aims + MET,
                at[refuted],
                upper[refuted],
                HALVINGS,
            )
        rows = np.arange(len(at))
        for _ in range(CORRECTIONS):
            options = predicted_options(self.fit, networks[rows], np.exp(at[rows]))
            missed = options.log_expected + score * options.spread - log_target[rows]
            rows, missed = rows[missed > 0], missed[missed > 0]
            at[rows] = np.clip(at[rows] + missed / slope[rows], lower[rows], upper[rows])
        return at

    def _bracketed(self, log_target: Floats) -> Floats:
        grid, curves = self._curves
        log_target = np.broadcast_to(log_target, (len(self.networks),))
        met = curves <= log_target
        first = met.argmax(axis=0)
        density = np.where(met.any(axis=0), LEAST, np.inf)
        crossing = np.flatnonzero(first)
        end, networks, aims = first[crossing], self.networks[crossing], log_target[crossing]
        density[crossing] = np.exp(
            _bisected(
                lambda at: log_error(self.fit, networks, np.exp(at)) <= aims,
                np.log(grid[end - 1]),
                np.log(grid[end]),
                HALVINGS,
            )
        )
        return density


def smallest_density(fit: Fit, networks: Candidates, log_target: Floats) -> Floats:
    """The smallest density of each network whose ε̂ is at most its target; infinite where there is none."""
    return Inversion(fit=fit, networks=networks).smallest_density(log_target)


def _every_pair(index: Integers, density: Floats) -> tuple[Integers, Floats]:
    """Each index with each density, the densities of one index after the other."""
    return np.repeat(index, len(density)), np.tile(density, len(index))


def _interpolated(grid: Floats, columns: Floats) -> Floats:
    """Columns of values on the coarse grid, interpolated linearly to a fine one."""
    rows = [np.interp(grid, COARSE, column) for column in columns.T]
    return np.array(rows).reshape(len(rows), len(grid)).T


def _crossings(log_density: Floats, falling: Floats, log_targets: Floats) -> Floats:
    """The density at which a falling curve first reaches each target, interpolated; infinite if it never does."""
    first = np.searchsorted(-falling, -log_targets, side="left")
    at, before = np.minimum(first, len(falling) - 1), np.clip(first - 1, 0, len(falling) - 1)
    drop = falling[before] - falling[at]
    share = np.where(drop > 0, (falling[before] - log_targets) / np.where(drop > 0, drop, 1.0), 1.0)
    between = log_density[before] + np.clip(share, 0.0, 1.0) * (log_density[at] - log_density[before])
    return np.where(first < len(falling), np.exp(between), np.inf)


def _bisected(met: Callable[[Floats], Mask], lower: Floats, upper: Floats, halvings: int) -> Floats:
    """The lowest log densities at which targets are met; they are met at the upper ends."""
    for _ in range(halvings):
        middle = (lower + upper) / 2
        good = met(middle)
        lower, upper = np.where(good, lower, middle), np.where(good, middle, upper)
    return upper


@dataclass(frozen=True, kw_only=True)
class Search:
    """A question about some networks, and the law that answers it."""

    fit: Fit
    question: Question
    inversion: Inversion
    """of the candidates; questions that differ in the target alone share it"""
    verdict: Verdict
    """on the law; an unusable law predicts no network"""

    @property
    def law_answers(self) -> bool:
        """Whether the law may answer: it is usable, or the question names the density."""
        return self.verdict.usable or self.question.density is not None

    @property
    def candidates(self) -> Candidates:
        """The networks to choose among."""
        return self.inversion.networks

    @property
    def counter(self) -> Counter:
        """How the parameters of networks are counted."""
        return counter(self.fit)

    @cached_property
    def naming(self) -> Naming:
        """How the networks are named."""
        return naming(self.fit, **{axis: getattr(self.question, axis) for axis in AXES})

    def size(self, options: Options) -> Floats:
        """The size of each pruned network in the measure that is minimised."""
        return costs.sizes_at(self.fit, self.question.minimise, options.networks, options.density)

    def training_cost(self, options: Options) -> Floats:
        """Training runs × multiply-adds × examples, in runs of the costliest measured network."""
        return (costs.levels(self.fit, options) + 1) * self._cost_per_run(options.networks)

    def _cost_per_run(self, networks: Candidates) -> Floats:
        return self.counter.cost_per_run(networks.counts, networks.num_examples)

    def affordable(self, options: Options) -> Mask:
        """Which networks keep to the budgets."""
        good: Mask = np.ones(len(options), dtype=bool)
        if self.question.max_parameters is not None:
            good &= self.size(options) <= self.question.max_parameters * (1 + 1e-9)
        if self.question.max_latency is not None:
            good &= self._latency_bound(options) <= self.question.max_latency * (1 + 1e-9)
        if self.question.max_training is not None:
            good &= self.training_cost(options) <= self.question.max_training * (1 + 1e-9)
        return good

    def meets(self, options: Options) -> Mask:
        """Which networks meet the target with the required confidence."""
        assert self.question.target_error is not None
        bound = options.log_bound(self.fit, self.question.confidence)
        highest = float(np.log(self.question.target_error)) + MET
        return np.asarray((bound <= highest) & (options.least_beside <= highest))

    def _lowest_trainable(self, networks: Candidates) -> Floats:
        """The lowest density that the training budget reaches; above 1 if it does not pay for one run."""
        if self.question.max_training is None:
            return np.full(len(networks), LEAST)
        runs = np.floor(self.question.max_training / self._cost_per_run(networks) + 1e-9)
        kept = float(kept_per_level(self.fit))
        return np.asarray(np.where(runs < 1, 2.0, np.maximum(kept ** (runs - 1), LEAST)))

    def for_targets(self, networks: Candidates, targets: Sequence[float]) -> Iterator[Options]:
        """For each target, the networks that meet it, pruned as far as it allows."""
        for target, options in zip(targets, self._pruned(networks, targets), strict=True):
            one = replace(self, question=replace(self.question, target_error=target))
            yield options[one.meets(options) & self.affordable(options)]

    def _pruned(self, networks: Candidates, targets: Sequence[float]) -> list[Options]:
        """For each target, the networks that may meet it, with predictions."""
        if not self.law_answers:
            return [predicted_options(self.fit, networks[:0], np.ones(0))] * len(targets)
        if self.question.density is not None:
            return [self._at_density(networks)] * len(targets)
        shared = networks is self.candidates
        inversion = self.inversion if shared else Inversion(fit=self.fit, networks=networks)
        density = np.maximum(
            inversion.confident_densities(np.log(targets), self.question.confidence),
            self._lowest_trainable(networks),
        )
        target, which = np.nonzero(density <= 1)
        kept = networks[which]
        whole = whole_weights(self.counter, kept, density[target, which], up=True)
        options = predicted_options(self.fit, kept, whole)
        ends = np.searchsorted(target, np.arange(len(targets) + 1)).tolist()
        return [options[start:end] for start, end in pairwise(ends)]

    def for_least_error(self, networks: Candidates) -> Options:
        """The networks that fit the budgets, at the density of their lowest error."""
        if not self.law_answers:
            return predicted_options(self.fit, networks[:0], np.ones(0))
        if self.question.density is not None:
            return self._at_density(networks)
        highest = self._highest_affordable(networks)
        lowest = self._lowest_trainable(networks)
        possible = highest >= lowest
        kept = networks[possible]
        if not len(kept):
            return predicted_options(self.fit, kept, np.ones(0))
        density = _least_error_density(self.fit, kept, lowest[possible], highest[possible])
        density = whole_weights(self.counter, kept, density, up=False)
        options = predicted_options(self.fit, kept, density)
        return options[self.affordable(options)]

    def _highest_affordable(self, networks: Candidates) -> Floats:
        """The highest density of each network within the budgets of size and latency."""
        highest, question = np.ones(len(networks)), self.question
        if question.max_parameters is not None and costs.from_table(self.fit, question.minimise):
            most = costs.highest_density(self.fit, question.minimise, networks, question.max_parameters)
            highest = np.minimum(highest, most)
        elif question.max_parameters is not None:
            highest = np.minimum(highest, self._highest_of_size(networks, question.max_parameters))
        if question.max_latency is not None:
            most = costs.highest_density(
                self.fit, Measure.LATENCY, networks, question.max_latency, question.confidence
            )
            highest = np.minimum(highest, most)
        return highest

    def _highest_of_size(self, networks: Candidates, most: float) -> Floats:
        """The highest density of each network with at most this size; not positive if there is none."""
        fit, measure = self.fit, self.question.minimise
        offset, slope = size_line(measure, networks)
        if measure is not Measure.STORED or costs.removed_channels(fit) is None:
            return np.asarray((most - offset) / slope)

        def too_large(log_density: Floats) -> Mask:
            return costs.sizes_at(fit, measure, networks, np.exp(log_density)) > most

        whole, least = np.zeros(len(networks)), np.full(len(networks), np.log(LEAST))
        beyond = np.exp(_bisected(too_large, least, whole, HALVINGS))
        return np.where(too_large(whole), beyond * (1 - MET), 1.0)

    def _at_density(self, networks: Candidates) -> Options:
        """Each network at the density that the question names, if it fits the budgets."""
        assert self.question.density is not None
        asked = np.full(len(networks), self.question.density)
        options = predicted_options(self.fit, networks, whole_weights(self.counter, networks, asked, up=True))
        return options[self.affordable(options)]

    def least_budget(self, trained: Options) -> str:
        """The smallest budgets that would be enough, for the error about a budget that is too small."""
        question, counted = self.question, self.counter.exact
        longest = smallest = trained
        which, until, how = " that was trained", "", ""
        if self.law_answers:
            asked, weights = question.density, self.candidates.counts.weights
            fewest = 1 / weights if counted else np.full(len(weights), LEAST)
            fewest = fewest if asked is None else np.full(len(weights), asked)
            longest = predicted_options(self.fit, self.candidates, np.full(len(weights), asked or 1.0))
            smallest = predicted_options(self.fit, self.candidates, fewest)
            which, until = "", " without pruning" if asked is None else f" for density {asked:g}"
            how = " with one weight left" if counted and asked is None else f" at density {asked or LEAST:g}"
        needs = []
        if question.max_training is not None:
            needs.append(f"training costs at least {_rounded_up(self.training_cost(longest).min())}{until}")
        if question.max_parameters is not None:
            unit = (question.minimise if counted else Measure.PAPER).unit
            needs.append(f"the smallest{which} has {_rounded_up(self.size(smallest).min())} {unit}{how}")
        if question.max_latency is not None:
            latency = self._latency_bound(smallest).min()
            needs.append(f"the fastest{which} takes {_rounded_up(latency)} ms")
        return ", and ".join(needs)

    def _latency_bound(self, options: Options) -> Floats:
        """An upper limit of each network's latency, with the required confidence if it is predicted."""
        return costs.latency_bound(self.fit, options.networks, options.density, self.question.confidence)

    def networks(self, options: Options, which: Sequence[int]) -> list[Network]:
        """Some of the options as networks with all of their numbers, in this order."""
        some, fit, target = options[np.array(which, dtype=np.int64)], self.fit, self.question.target_error
        size, density, score = some.networks, some.density, quantile(fit, (1 + COVERAGE) / 2)
        level, multiply_adds = costs.levels(fit, some), size.counts.multiply_adds * density
        if costs.from_table(fit, Measure.MULTIPLY_ADDS):
            multiply_adds = costs.cost(fit, "multiply_adds", size, density)
        lower = np.exp(some.log_expected - score * some.below)
        upper = np.minimum(np.exp(some.log_expected + score * some.spread), fit.metric.highest)
        likely = (
            np.full(len(some), np.nan) if target is None else some.probability(fit, float(np.log(target)))
        )
        each = [slice(index, index + 1) for index in range(len(some))]
        columns: dict[str, list[Any]] = {
            "depth": size.depth.tolist(),
            "width": size.width.tolist(),
            "num_examples": size.num_examples.tolist(),
            "density": density.tolist(),
            "level": level.tolist(),
            "error": np.exp(some.log_error).tolist(),
            "expected_error": np.exp(some.log_expected).tolist(),
            "interval": list(zip(lower.tolist(), upper.tolist(), strict=True)),
            "probability": _unless_nan(likely),
            "source": ["measured" if known else "law" for known in some.measured],
            "nonzero_parameters": self._whole(some.nonzero),
            "stored_parameters": self._whole(costs.sizes_at(fit, Measure.STORED, size, density)),
            "paper_size": costs.sizes_at(fit, Measure.PAPER, size, density).tolist(),
            "multiply_adds": _unless_nan(multiply_adds),
            "unpruned_error": size.unpruned_error.tolist(),
            "unpruned_source": ["measured" if known else "predicted" for known in size.measured],
            "expected_unpruned_error": size.expected_unpruned_error.tolist(),
            "extrapolated": (size.outside | below(fit, density)).tolist(),
            "training_runs": (level + 1).tolist(),
            "training_cost": ((level + 1) * self._cost_per_run(size)).tolist(),
            "network_epochs": [_network_epochs(fit, own) for own in level.tolist()],
            "bytes": _unless_nan(costs.cost(fit, "bytes", size, density)),
            "latency_ms": _unless_nan(costs.cost(fit, "latency_ms", size, density)),
            "latency_interval": [costs.latency_interval(fit, size[one], density[one]) for one in each],
            "other_latencies": [costs.other_latencies(fit, size[one], density[one]) for one in each],
        }
        return [
            Network(**dict(zip(columns, values, strict=True)))
            for values in zip(*columns.values(), strict=True)
        ]

    def _whole(self, count: Floats) -> list[Any]:
        """Counts as integers, where weights are counted."""
        return list((count.round().astype(np.int64) if self.counter.exact else count).tolist())


def _unless_nan(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def _network_epochs(fit: Fit, level: int) -> float | None:
    """Epochs of a chain up to a level; training runs after the first start at the rewind point."""
    recipe, method = RECIPES.get(fit.origin.recipe), METHODS.get(fit.origin.method or "imp")
    if recipe is None or method is None:
        return None
    again = recipe.epochs if method.before_training else recipe.epochs - recipe.rewind
    return float(recipe.epochs + level * again)


def _rounded_up(value: float) -> str:
    """Three digits, rounded up, so that this budget is enough."""
    scale = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / scale - 1e-9) * scale:.3g}" if value < 1000 else f"{np.ceil(value):,.0f}"


def _least_error_density(fit: Fit, networks: Candidates, lowest: Floats, highest: Floats) -> Floats:
    """The density between two others at which each network's ε̂ is lowest, by a grid that zooms in."""
    low, high = np.log(lowest), np.log(highest)
    every = np.tile(np.arange(len(networks)), MINIMUM_GRID)
    for _ in range(ZOOMS):
        grid = low + np.linspace(0.0, 1.0, MINIMUM_GRID)[:, None] * (high - low)
        points = networks[every].points(fit, np.exp(grid.ravel()))
        curves = predictive(fit).median(points, networks.own[every]).reshape(grid.shape)
        at = curves.argmin(axis=0)
        best = np.take_along_axis(grid, at[None], axis=0)[0]
        step = (high - low) / (MINIMUM_GRID - 1)
        low, high = np.maximum(best - step, low), np.minimum(best + step, high)
    return np.asarray(np.exp(best))

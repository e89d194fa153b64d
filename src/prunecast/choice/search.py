"""How far each candidate is pruned: fewest parameters for an error, or least error within budgets.

A law is inverted in closed form where it has one. Else the smallest density is bracketed on a grid and found to
rounding, so any law works.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from prunecast.choice import costs
from prunecast.choice.counts import Counter, Naming, naming
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
"""No density below this is ever considered."""
GRID, HALVINGS = 400, 45
"""Without a closed form a density is bracketed on a grid, and the bracket halved to rounding."""
COARSE_GRID, CORRECTIONS = 80, 2
MINIMUM_GRID, ZOOMS = 60, 4


def log_error(fit: Fit, networks: Candidates, density: Floats) -> Floats:
    """log ε̂ of each network at its density."""
    return average(fit, networks.points(fit, density)).log_error


@dataclass(frozen=True, kw_only=True)
class Inversion:
    """A law solved for the density of some networks; what does not depend on the target is computed once."""

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
    def _distributions(self) -> tuple[Floats, Floats, Floats, Floats]:
        """A grid of log densities from the lowest up; log ε to expect there, its spread, and the least log ε beside.

        Between measured sizes, what the law misses and the spread change slowly with density, so they are interpolated.
        """
        grid, coarse = np.log(np.geomspace(LEAST, 1.0, GRID)), np.linspace(np.log(LEAST), 0.0, COARSE_GRID)
        expected, spread = self._curves[1].copy(), np.zeros((GRID, len(self.networks)))
        beside = np.full(spread.shape, -np.inf)
        for measured, at in ((False, coarse), (True, grid)):
            which = np.flatnonzero(self.networks.measured == measured)
            options = self._at_all(which, np.exp(at))
            found, spreads, refuted = (
                values.reshape(len(which), len(at)).T
                for values in (options.log_expected, options.spread, options.least_beside)
            )
            if measured:
                expected[:, which], spread[:, which], beside[:, which] = found, spreads, refuted
            else:
                law = log_error(self.fit, options.networks, options.density).reshape(len(which), len(at)).T
                expected[:, which] += _interpolated(grid, at, found - law)
                spread[:, which] = _interpolated(grid, at, spreads)
        return grid, expected, spread, beside

    def _at_all(self, which: Integers, density: Floats) -> Options:
        """Some of the networks, each at every density in turn."""
        every = self.networks[np.repeat(which, len(density))]
        return predicted_options(self.fit, every, np.tile(density, len(which)))

    def confident_densities(self, log_targets: Floats, confidence: float) -> Floats:
        """The smallest density at which a new run meets a target with this probability, shape (targets, networks).

        It is infinite where there is none. No density counts whose measured neighbours all miss the target.
        """
        grid, expected, spread, refuted_to = self._distributions
        score = quantile(self.fit, confidence)
        bounds = expected + score * spread
        falling = np.minimum.accumulate(np.maximum(bounds, refuted_to - MET), axis=0)
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
        """Log densities between two neighbours of the grid at which targets are met, as they are at the upper ones."""
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
        for _ in range(CORRECTIONS):
            options = predicted_options(self.fit, networks, np.exp(at))
            missed = options.log_expected + score * options.spread - log_target
            at = np.clip(at + np.maximum(missed, 0.0) / slope, lower, upper)
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


def _interpolated(grid: Floats, at: Floats, columns: Floats) -> Floats:
    """Columns of values at some points, interpolated linearly to a grid."""
    rows = [np.interp(grid, at, column) for column in columns.T]
    return np.array(rows).reshape(len(rows), len(grid)).T


def _crossings(log_density: Floats, falling: Floats, log_targets: Floats) -> Floats:
    """Where a falling curve first reaches each target, interpolated; infinite where it does not."""
    first = np.searchsorted(-falling, -log_targets, side="left")
    at, before = np.minimum(first, len(falling) - 1), np.clip(first - 1, 0, len(falling) - 1)
    drop = falling[before] - falling[at]
    share = np.where(drop > 0, (falling[before] - log_targets) / np.where(drop > 0, drop, 1.0), 1.0)
    between = log_density[before] + np.clip(share, 0.0, 1.0) * (log_density[at] - log_density[before])
    return np.where(first < len(falling), np.exp(between), np.inf)


def _bisected(met: Callable[[Floats], Mask], lower: Floats, upper: Floats, halvings: int) -> Floats:
    """The log densities between two ends from which on a target is met, as it is at the upper ends."""
    for _ in range(halvings):
        middle = (lower + upper) / 2
        good = met(middle)
        lower, upper = np.where(good, lower, middle), np.where(good, middle, upper)
    return upper


@dataclass(frozen=True, kw_only=True)
class Search:
    """A law, a way to count, a question, and the networks that it is about."""

    fit: Fit
    counter: Counter
    question: Question
    inversion: Inversion
    """of the candidates, shared by several questions"""
    verdict: Verdict
    """on the law; an unusable one finds no network"""

    @property
    def law_answers(self) -> bool:
        """Whether the law may answer: a usable one, or any where the question itself says how far to prune."""
        return self.verdict.usable or self.question.density is not None

    @property
    def candidates(self) -> Candidates:
        """The networks to choose among."""
        return self.inversion.networks

    @cached_property
    def naming(self) -> Naming:
        """How the networks are named."""
        return naming(self.fit, self.counter, **{axis: getattr(self.question, axis) for axis in AXES})

    def size(self, options: Options) -> Floats:
        """The size of each pruned network in the measure that is minimised."""
        return costs.size(self.fit, options, self.question.minimise)

    def training_cost(self, options: Options) -> Floats:
        """Training runs × multiply-adds × examples, in runs of the costliest measured network."""
        return (costs.levels(self.fit, options) + 1) * self._cost_per_run(options.networks)

    def _cost_per_run(self, networks: Candidates) -> Floats:
        return self.counter.cost_per_run(networks.counts, networks.num_examples)

    def affordable(self, options: Options) -> Mask:
        """Which networks keep to the budgets of parameters and training."""
        good: Mask = np.ones(len(options), dtype=bool)
        if self.question.max_parameters is not None:
            good &= self.size(options) <= self.question.max_parameters * (1 + 1e-9)
        if self.question.max_latency is not None:
            latency = costs.latency_bound(
                self.fit, options.networks, options.density, self.question.confidence
            )
            good &= latency <= self.question.max_latency * (1 + 1e-9)
        if self.question.max_training is not None:
            good &= self.training_cost(options) <= self.question.max_training * (1 + 1e-9)
        return good

    def meets(self, options: Options) -> Mask:
        """Which networks meet the target with the confidence asked for."""
        assert self.question.target_error is not None
        bound = options.log_bound(self.fit, self.question.confidence)
        highest = float(np.log(self.question.target_error)) + MET
        return np.asarray((bound <= highest) & (options.least_beside <= highest))

    def _lowest_trainable(self, networks: Candidates) -> Floats:
        """The lowest density that the training budget reaches; above 1 where not even one run is affordable."""
        if self.question.max_training is None:
            return np.full(len(networks), LEAST)
        runs = np.floor(self.question.max_training / self._cost_per_run(networks) + 1e-9)
        kept = float(kept_per_level(self.fit))
        return np.asarray(np.where(runs < 1, 2.0, np.maximum(kept ** (runs - 1), LEAST)))

    def for_targets(self, networks: Candidates, targets: Sequence[float]) -> Iterator[Options]:
        """For each target, every network pruned as far as it allows; those that cannot meet it are left out."""
        for target, options in zip(targets, self._pruned(networks, targets), strict=True):
            one = replace(self, question=replace(self.question, target_error=target))
            yield options[one.meets(options) & self.affordable(options)]

    def _pruned(self, networks: Candidates, targets: Sequence[float]) -> list[Options]:
        """For each target, the networks that may meet it."""
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
        """Each network at the density of its least error within the budgets; those beyond them are left out."""
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
        """The highest density of each network within the budgets of parameters and latency."""
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
        """The highest density of each network with at most this size; none is positive where there is no such one."""
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
        """Each network at the density asked for, if it keeps to the budgets."""
        assert self.question.density is not None
        asked = np.full(len(networks), self.question.density)
        options = predicted_options(self.fit, networks, whole_weights(self.counter, networks, asked, up=True))
        return options[self.affordable(options)]

    def least_budget(self, trained: Options) -> str:
        """The least that the networks need of what is bounded, for the refusal of a budget."""
        return ", and ".join(self._needs_by_law() if self.law_answers else self._needs_of(trained))

    def _needs_of(self, trained: Options) -> Iterator[str]:
        """What networks that were trained need."""
        unit = (self.question.minimise if self.counter.exact else Measure.PAPER).unit
        if self.question.max_training is not None:
            yield f"training costs at least {_rounded_up(self.training_cost(trained).min())}"
        if self.question.max_parameters is not None:
            yield f"the smallest that was trained has {_rounded_up(self.size(trained).min())} {unit}"
        if self.question.max_latency is not None:
            bound = costs.latency_bound(self.fit, trained.networks, trained.density, self.question.confidence)
            yield f"the fastest that was trained takes {_rounded_up(bound.min())} ms"

    def _needs_by_law(self) -> list[str]:
        asked, weights = self.question.density, self.candidates.counts.weights
        fewest = 1 / weights if self.counter.exact else np.full(len(weights), LEAST)
        needs = []
        if self.question.max_training is not None:
            whole = predicted_options(self.fit, self.candidates, np.full(len(weights), asked or 1.0))
            how = "without pruning" if asked is None else f"for density {asked:g}"
            needs.append(f"training costs at least {_rounded_up(self.training_cost(whole).min())} {how}")
        if self.question.max_parameters is not None:
            left = fewest if asked is None else np.full(len(weights), asked)
            least = self.size(predicted_options(self.fit, self.candidates, left)).min()
            counted = self.counter.exact
            how = "with one weight left" if counted and asked is None else f"at density {asked or LEAST:g}"
            unit = (self.question.minimise if counted else Measure.PAPER).unit
            needs.append(f"the smallest has {_rounded_up(least)} {unit} {how}")
        if self.question.max_latency is not None:
            left = fewest if asked is None else np.full(len(weights), asked)
            fastest = costs.latency_bound(self.fit, self.candidates, left, self.question.confidence).min()
            needs.append(f"the fastest takes {_rounded_up(fastest)} ms")
        return needs

    def network(self, options: Options, index: int) -> Network:
        """One of many options with all of its numbers."""
        one = options[np.array([index])]
        size, fit, target = one.networks, self.fit, self.question.target_error
        log_expected, score = float(one.log_expected[0]), quantile(fit, (1 + COVERAGE) / 2)
        level = int(costs.levels(fit, one)[0])
        operations = float(size.counts.multiply_adds[0] * one.density[0])
        if costs.from_table(fit, Measure.MULTIPLY_ADDS):
            operations = float(costs.cost(fit, Measure.MULTIPLY_ADDS, size, one.density)[0])
        known = {
            name: float(costs.cost(fit, measure, size, one.density)[0])
            for name, measure in (("bytes", Measure.BYTES), ("latency_ms", Measure.LATENCY))
        }
        return Network(
            depth=float(size.depth[0]),
            width=float(size.width[0]),
            num_examples=float(size.num_examples[0]),
            density=float(one.density[0]),
            level=level,
            error=float(np.exp(one.log_error[0])),
            expected_error=float(np.exp(log_expected)),
            interval=(
                float(np.exp(log_expected - score * one.below[0])),
                float(min(np.exp(log_expected + score * one.spread[0]), fit.metric.highest)),
            ),
            probability=None if target is None else float(one.probability(fit, float(np.log(target)))[0]),
            source="measured" if one.measured[0] else "law",
            nonzero_parameters=self._whole(one.nonzero),
            stored_parameters=self._whole(costs.size(fit, one, Measure.STORED)),
            paper_size=float(costs.size(fit, one, Measure.PAPER)[0]),
            multiply_adds=None if np.isnan(operations) else operations,
            unpruned_error=float(size.unpruned_error[0]),
            unpruned_source="measured" if size.measured[0] else "predicted",
            expected_unpruned_error=float(size.expected_unpruned_error[0]),
            extrapolated=bool(size.outside[0] or below(fit, one.density)[0]),
            training_runs=level + 1,
            training_cost=float(self.training_cost(one)[0]),
            network_epochs=_network_epochs(fit, level),
            latency_interval=costs.latency_interval(fit, size, one.density),
            other_latencies=costs.other_latencies(fit, size, one.density),
            **{name: None if np.isnan(value) else value for name, value in known.items()},
        )

    def _whole(self, count: Floats) -> float:
        return round(float(count[0])) if self.counter.exact else float(count[0])


def _network_epochs(fit: Fit, level: int) -> float | None:
    """Epochs of a chain up to a level; its later training runs start at the rewind point, as the paper's do."""
    recipe, method = RECIPES.get(fit.origin.recipe), METHODS.get(fit.origin.method or "imp")
    if recipe is None or method is None:
        return None
    again = recipe.epochs if method.before_training else recipe.epochs - recipe.rewind
    return float(recipe.epochs + level * again)


def _rounded_up(value: float) -> str:
    """Three digits, rounded up, so that a budget of this much is enough."""
    scale = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / scale - 1e-9) * scale:.3g}" if value < 1000 else f"{np.ceil(value):,.0f}"


def _least_error_density(fit: Fit, networks: Candidates, lowest: Floats, highest: Floats) -> Floats:
    """The density of the least ε̂ of each network between two densities, by a grid that zooms in."""
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

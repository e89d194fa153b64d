"""How far each candidate is pruned: fewest parameters for an error, or least error within budgets.

A law is inverted in closed form where it has one. Else the smallest density is bracketed on a grid and found to
rounding, so any law works.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from prunecast.choice.counts import Counter, Naming, naming
from prunecast.choice.options import (
    Network,
    Options,
    kept_per_level,
    predicted_options,
    quantile,
    size_line,
    whole_weights,
)
from prunecast.choice.question import Measure, Question
from prunecast.choice.sizes import Candidates
from prunecast.laws import AXES, COVERAGE, Fit, Floats, Mask, below
from prunecast.spec import RECIPES

LEAST = 1e-6
"""No density below this is ever considered."""
GRID, HALVINGS = 400, 45
"""Without a closed form a density is bracketed on a grid, and the bracket halved to rounding."""
ITERATIONS, CLOSE = 30, 1e-6
COARSE_GRID, FEW_HALVINGS = 24, 25
MINIMUM_GRID, ZOOMS = 60, 4


def log_error(fit: Fit, networks: Candidates, density: Floats) -> Floats:
    """log ε̂ of each network at its density."""
    return np.asarray(fit.form().log_error(fit.theta()[None], networks.points(fit, density))[0])


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
        if self.fit.dips:
            return float(self._curves[1].min())
        return float(log_error(self.fit, self.networks, np.ones(len(self.networks))).min())

    def _closed(self, log_target: Floats) -> Floats | None:
        points = self.networks.points(self.fit, np.ones(len(self.networks)))
        density = self.fit.form().smallest_density(self.fit.theta()[None], points, log_target)
        return None if density is None else np.where(density > 1, np.inf, np.maximum(density, LEAST))

    @cached_property
    def _curves(self) -> tuple[Floats, Floats]:
        """A grid of densities from the lowest up, and log ε̂ there, shape (densities, networks)."""
        density, count = np.geomspace(LEAST, 1.0, GRID), len(self.networks)
        every = self.networks[np.tile(np.arange(count), GRID)]
        return density, log_error(self.fit, every, np.repeat(density, count)).reshape(GRID, count)

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


def confident_density(inversion: Inversion, log_target: float, confidence: float) -> Floats:
    """The smallest density of each network at which ε̂ · exp(t·spread) is at most the target; infinite if none is.

    Iterating on the spread finds it in a few steps where the spread changes slowly with density. Where that fails, as
    with undetermined parameters, the bound is bracketed on a grid and halved.
    """
    fit, networks = inversion.fit, inversion.networks
    plain = inversion.smallest_density(np.full(len(networks), log_target))
    score = quantile(fit, confidence)
    if not score:
        return plain
    density = _iterated(fit, networks, plain, log_target, score)
    possible = np.isfinite(plain) | (score < 0)
    missed = np.flatnonzero(possible & ~_kept(fit, networks, np.minimum(density, 1.0), log_target, score))
    ends = (plain[missed], np.ones(len(missed))) if score > 0 else (LEAST, np.minimum(plain[missed], 1.0))
    density[missed] = _halved(fit, networks[missed], ends, log_target, score)
    return density


def _kept(fit: Fit, networks: Candidates, density: Floats, log_target: float, score: float) -> Mask:
    """Whether the bound of each network at its density is at most the target."""
    options = predicted_options(fit, networks, density)
    return np.asarray(options.log_expected + score * options.spread <= log_target + CLOSE)


def _iterated(fit: Fit, networks: Candidates, density: Floats, log_target: float, score: float) -> Floats:
    density, active = density.copy(), np.arange(len(networks))
    for _ in range(ITERATIONS):
        there = np.minimum(density[active], 1.0)
        aim = log_target - score * predicted_options(fit, networks[active], there).spread
        following = smallest_density(fit, networks[active], aim)
        density[active] = following
        active = active[~np.isclose(np.minimum(following, 1.0), there, rtol=1e-7, atol=0)]
        if not len(active):
            break
    return density


def _halved(
    fit: Fit, networks: Candidates, ends: tuple[Floats | float, Floats], log_target: float, score: float
) -> Floats:
    """The smallest density between two ends that keeps the target, as far as a grid shows it."""
    if not len(networks):
        return np.zeros(0)
    grid = np.linspace(np.broadcast_to(np.log(ends[0]), len(networks)), np.log(ends[1]), COARSE_GRID)
    kept = np.array([_kept(fit, networks, np.exp(row), log_target, score) for row in grid])
    first, each = kept.argmax(axis=0), np.arange(len(networks))
    upper = _bisected(
        lambda at: _kept(fit, networks, np.exp(at), log_target, score),
        grid[np.maximum(first - 1, 0), each],
        grid[first, each],
        FEW_HALVINGS,
    )
    return np.where(kept.any(axis=0), np.exp(upper), np.inf)


@dataclass(frozen=True, kw_only=True)
class Search:
    """A law, a way to count, a question, and the networks that it is about."""

    fit: Fit
    counter: Counter
    question: Question
    inversion: Inversion
    """of the candidates, shared by several questions"""

    @property
    def candidates(self) -> Candidates:
        """The networks to choose among."""
        return self.inversion.networks

    @cached_property
    def naming(self) -> Naming:
        """How the networks are named."""
        return naming(self.fit, self.counter, **{axis: getattr(self.question, axis) for axis in AXES})

    def training_cost(self, options: Options) -> Floats:
        """Training runs × multiply-adds × examples, in runs of the costliest measured network."""
        return (options.levels(kept_per_level(self.fit)) + 1) * self._cost_per_run(options.networks)

    def _cost_per_run(self, networks: Candidates) -> Floats:
        return self.counter.cost_per_run(networks.counts, networks.num_examples)

    def affordable(self, options: Options) -> Mask:
        """Which networks keep to the budgets of parameters and training."""
        good: Mask = np.ones(len(options), dtype=bool)
        if self.question.max_parameters is not None:
            good &= options.size(self.question.minimise) <= self.question.max_parameters * (1 + 1e-9)
        if self.question.max_training is not None:
            good &= self.training_cost(options) <= self.question.max_training * (1 + 1e-9)
        return good

    def meets(self, options: Options) -> Mask:
        """Which networks meet the target with the confidence asked for."""
        assert self.question.target_error is not None
        bound = options.log_bound(self.fit, self.question.confidence)
        return np.asarray(bound <= np.log(self.question.target_error) + 1e-6)

    def _lowest_trainable(self, networks: Candidates) -> Floats:
        """The lowest density that the training budget reaches; above 1 where not even one run is affordable."""
        if self.question.max_training is None:
            return np.full(len(networks), LEAST)
        runs = np.floor(self.question.max_training / self._cost_per_run(networks) + 1e-9)
        kept = float(kept_per_level(self.fit))
        return np.asarray(np.where(runs < 1, 2.0, np.maximum(kept ** (runs - 1), LEAST)))

    def for_target(self, networks: Candidates) -> Options:
        """Each network pruned as far as the target allows; those that cannot meet it are left out."""
        if self.question.density is not None:
            options = self._at_density(networks)
            return options[self.meets(options)]
        assert self.question.target_error is not None
        shared = networks is self.candidates
        inversion = self.inversion if shared else Inversion(fit=self.fit, networks=networks)
        log_target = float(np.log(self.question.target_error))
        density = np.maximum(
            confident_density(inversion, log_target, self.question.confidence),
            self._lowest_trainable(networks),
        )
        possible = density <= 1
        kept = networks[possible]
        density = whole_weights(self.counter, kept, density[possible], up=True)
        options = predicted_options(self.fit, kept, density)
        return options[self.meets(options) & self.affordable(options)]

    def for_least_error(self, networks: Candidates) -> Options:
        """Each network at the density of its least error within the budgets; those beyond them are left out."""
        if self.question.density is not None:
            return self._at_density(networks)
        highest = np.ones(len(networks))
        if self.question.max_parameters is not None:
            offset, slope = size_line(self.question.minimise, networks)
            highest = np.minimum(highest, (self.question.max_parameters - offset) / slope)
        lowest = self._lowest_trainable(networks)
        possible = highest >= lowest
        kept = networks[possible]
        if not len(kept):
            return predicted_options(self.fit, kept, np.ones(0))
        density = _least_error_density(self.fit, kept, lowest[possible], highest[possible])
        density = whole_weights(self.counter, kept, density, up=False)
        options = predicted_options(self.fit, kept, density)
        return options[self.affordable(options)]

    def _at_density(self, networks: Candidates) -> Options:
        """Each network at the density asked for, if it keeps to the budgets."""
        assert self.question.density is not None
        asked = np.full(len(networks), self.question.density)
        options = predicted_options(self.fit, networks, whole_weights(self.counter, networks, asked, up=True))
        return options[self.affordable(options)]

    def least_budget(self) -> str:
        """The least that the networks need of what is bounded, for the refusal of a budget."""
        asked, weights = self.question.density, self.candidates.counts.weights
        fewest = 1 / weights if self.counter.exact else np.full(len(weights), LEAST)
        needs = []
        if self.question.max_training is not None:
            whole = predicted_options(self.fit, self.candidates, np.full(len(weights), asked or 1.0))
            how = "without pruning" if asked is None else f"to density {asked:g}"
            needs.append(f"training takes {_rounded_up(self.training_cost(whole).min())} at least, {how}")
        if self.question.max_parameters is not None:
            left = fewest if asked is None else np.full(len(weights), asked)
            least = predicted_options(self.fit, self.candidates, left).size(self.question.minimise).min()
            counted = self.counter.exact
            how = "with one weight left" if counted and asked is None else f"at density {asked or LEAST:g}"
            unit = (self.question.minimise if counted else Measure.PAPER).unit
            needs.append(f"the smallest has {_rounded_up(least)} {unit} {how}")
        return ", and ".join(needs)

    def network(self, options: Options, index: int) -> Network:
        """One of many options with all of its numbers."""
        one = options[np.array([index])]
        size, fit, target = one.networks, self.fit, self.question.target_error
        log_expected, reach = (
            float(one.log_expected[0]),
            quantile(fit, (1 + COVERAGE) / 2) * float(one.spread[0]),
        )
        level = int(one.levels(kept_per_level(fit))[0])
        operations = float(size.counts.multiply_adds[0] * one.density[0])
        recipe = RECIPES.get(fit.origin.recipe)
        return Network(
            depth=float(size.depth[0]),
            width=float(size.width[0]),
            num_examples=float(size.num_examples[0]),
            density=float(one.density[0]),
            level=level,
            error=float(np.exp(one.log_error[0])),
            expected_error=float(np.exp(log_expected)),
            interval=(
                float(np.exp(log_expected - reach)),
                float(min(np.exp(log_expected + reach), fit.metric.highest)),
            ),
            probability=None if target is None else float(one.probability(fit, float(np.log(target)))[0]),
            source="measured" if one.measured[0] else "law",
            nonzero_parameters=self._whole(one.nonzero),
            stored_parameters=self._whole(one.nonzero + size.counts.fixed),
            paper_size=float(one.size(Measure.PAPER)[0]),
            multiply_adds=None if np.isnan(operations) else operations,
            unpruned_error=float(size.unpruned_error[0]),
            unpruned_source="measured" if size.measured[0] else "predicted",
            expected_unpruned_error=float(size.expected_unpruned_error[0]),
            extrapolated=bool(size.outside[0] or below(fit, one.density)[0]),
            trainings=level + 1,
            training_cost=float(self.training_cost(one)[0]),
            network_epochs=None if recipe is None else (level + 1) * float(recipe.epochs),
        )

    def _whole(self, count: Floats) -> float:
        return round(float(count[0])) if self.counter.exact else float(count[0])


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
        curves = log_error(fit, networks[every], np.exp(grid.ravel())).reshape(grid.shape)
        at = curves.argmin(axis=0)
        best = np.take_along_axis(grid, at[None], axis=0)[0]
        step = (high - low) / (MINIMUM_GRID - 1)
        low, high = np.maximum(best - step, low), np.minimum(best + step, high)
    return np.asarray(np.exp(best))

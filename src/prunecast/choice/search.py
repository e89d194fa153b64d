"""The best density of every size: fewest parameters for an error, or least error within budgets."""

from dataclasses import dataclass

import numpy as np

from prunecast.choice.answer import Question
from prunecast.choice.confident import confident_density
from prunecast.choice.counts import Counter
from prunecast.choice.density import LEAST, Curves, log_error
from prunecast.choice.naming import UNITS, Naming, naming
from prunecast.choice.options import (
    KEPT_A_LEVEL,
    Options,
    by_law,
    line,
    measured_by,
    training_unit,
    whole_weights,
)
from prunecast.choice.sizes import Sizes
from prunecast.laws import Fit
from prunecast.laws.points import Floats, Mask

MINIMUM_GRID, ZOOMS = 60, 4


@dataclass(frozen=True, kw_only=True)
class Search:
    """A law, a way to count, a question, and the networks that it is about."""

    fit: Fit
    counter: Counter
    question: Question
    candidates: Sizes
    curves: Curves | None
    """of the candidates, where several questions share them"""

    @property
    def naming(self) -> Naming:
        """How the networks are spoken of."""
        own = {axis: getattr(self.question, axis) for axis in ("depth", "width", "num_examples")}
        return naming(self.fit, self.counter, **own)

    def training_cost(self, options: Options) -> Floats:
        """Trainings × multiply-adds × examples, in trainings of the costliest measured network."""
        unit = training_unit(self.counter, options.sizes)
        return np.asarray((options.level + 1) * unit)

    def affordable(self, options: Options) -> Mask:
        """Which networks keep to the budgets of parameters and training."""
        good: Mask = np.ones(len(options), dtype=bool)
        if self.question.max_parameters is not None:
            good &= measured_by(self.question.minimise, options) <= self.question.max_parameters * (1 + 1e-9)
        if self.question.max_training is not None:
            good &= self.training_cost(options) <= self.question.max_training * (1 + 1e-9)
        return good

    def least_budget(self) -> str:
        """The least that the networks need of what is bounded, in words."""
        asked, weights = self.question.density, self.candidates.counts.weights
        fewest = 1 / weights if self.counter.exact else np.full(len(weights), LEAST)
        needs = []
        if self.question.max_training is not None:
            whole = by_law(self.fit, self.candidates, np.full(len(weights), asked or 1.0))
            how = "without pruning" if asked is None else f"to density {asked:g}"
            needs.append(f"training takes {_up(self.training_cost(whole).min())} at least, {how}")
        if self.question.max_parameters is not None:
            left = fewest if asked is None else np.full(len(weights), asked)
            least = measured_by(self.question.minimise, by_law(self.fit, self.candidates, left)).min()
            counted = self.counter.exact
            how = "with one weight left" if counted and asked is None else f"at density {asked or LEAST:g}"
            unit = UNITS[self.question.minimise if counted else "paper"]
            needs.append(f"the smallest has {_up(least)} {unit} {how}")
        return ", and ".join(needs)

    def meets(self, options: Options) -> Mask:
        """Which networks meet the target with the confidence asked for."""
        assert self.question.target_error is not None
        promised = options.promised(self.fit, self.question.confidence)
        return np.asarray(promised <= np.log(self.question.target_error) + 1e-6)

    def lowest_trainable(self, sizes: Sizes) -> Floats:
        """The lowest density that the training budget reaches; above 1 where not even one training is affordable."""
        if self.question.max_training is None:
            return np.full(len(sizes), LEAST)
        trainings = np.floor(self.question.max_training / training_unit(self.counter, sizes) + 1e-9)
        return np.asarray(np.where(trainings < 1, 2.0, np.maximum(KEPT_A_LEVEL ** (trainings - 1), LEAST)))

    def for_target(self, sizes: Sizes) -> Options:
        """Each size pruned as far as the target allows; sizes that cannot meet it are left out."""
        if self.question.density is not None:
            options = self._at_density(sizes)
            return options[self.meets(options)]
        assert self.question.target_error is not None
        log_target, confidence = float(np.log(self.question.target_error)), self.question.confidence
        curves = self.curves if sizes is self.candidates else None
        promised = confident_density(self.fit, sizes, log_target, confidence, curves)
        density = np.maximum(promised, self.lowest_trainable(sizes))
        possible = density <= 1
        kept = sizes[possible]
        options = by_law(self.fit, kept, whole_weights(self.counter, kept, density[possible], up=True))
        return options[self.meets(options) & self.affordable(options)]

    def _at_density(self, sizes: Sizes) -> Options:
        """Each size at the density asked for, if it keeps to the budgets."""
        assert self.question.density is not None
        density = whole_weights(self.counter, sizes, np.full(len(sizes), self.question.density), up=True)
        options = by_law(self.fit, sizes, density)
        return options[self.affordable(options)]

    def for_least_error(self, sizes: Sizes) -> Options:
        """Each size at the density of its least error within the budgets; sizes beyond them are left out."""
        if self.question.density is not None:
            return self._at_density(sizes)
        highest = np.ones(len(sizes))
        if self.question.max_parameters is not None:
            offset, slope = line(self.question.minimise, sizes)
            highest = np.minimum(highest, (self.question.max_parameters - offset) / slope)
        lowest = self.lowest_trainable(sizes)
        possible = highest >= lowest
        kept = sizes[possible]
        if not len(kept):
            return by_law(self.fit, kept, np.ones(0))
        density = _least(self.fit, kept, lowest[possible], highest[possible])
        options = by_law(self.fit, kept, whole_weights(self.counter, kept, density, up=False))
        return options[self.affordable(options)]


def _up(value: float) -> str:
    """Three digits, rounded up, so that a budget of so much is enough."""
    scale = 10.0 ** (np.floor(np.log10(value)) - 2)
    return f"{np.ceil(value / scale - 1e-9) * scale:.3g}" if value < 1000 else f"{np.ceil(value):,.0f}"


def _least(fit: Fit, sizes: Sizes, lowest: Floats, highest: Floats) -> Floats:
    """The density of the least ε̂ of each size between two densities, by a grid that zooms in."""
    low, high = np.log(lowest), np.log(highest)
    every = np.tile(np.arange(len(sizes)), MINIMUM_GRID)
    for _ in range(ZOOMS):
        grid = low + np.linspace(0.0, 1.0, MINIMUM_GRID)[:, None] * (high - low)
        curves = log_error(fit, sizes[every], np.exp(grid.ravel())).reshape(grid.shape)
        at = curves.argmin(axis=0)
        best = np.take_along_axis(grid, at[None], axis=0)[0]
        step = (high - low) / (MINIMUM_GRID - 1)
        low, high = np.maximum(best - step, low), np.minimum(best + step, high)
    return np.asarray(np.exp(best))

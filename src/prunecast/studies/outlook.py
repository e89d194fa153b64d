"""How uncertain the smallest network for each target is, and how much each chain of a grid would reduce that.

Draws from the predictive distribution give draws of the smallest network for a target. Training a chain measures its
errors near the target. This reduces the answer's variance by the part that a linear regression of the answer on these
errors explains.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prunecast.choice import (
    Candidates,
    Choice,
    candidates,
    candidates_at,
    choose_each,
    quantile,
    sizes_along,
)
from prunecast.errors import PrunecastError
from prunecast.laws import DenseLaw, Fit, Floats, Integers, average, predictive
from prunecast.studies.search_grid import (
    BEST_UNPRUNED,
    HIGHEST_UNPRUNED,
    LOWEST_UNPRUNED,
    Grid,
    NextStep,
    Reason,
    whole,
)

SEEN = 1.3
"""The curve of a network that misses a target is judged at this multiple of its unpruned error."""
SETTLED, ENOUGH = 0.1, 0.15
"""Doubt is the standard deviation of an answer's log size. Below the first value, an answer counts as known; at the
second, a search ends. On measured grids, ending at 0.25 gave fewer right answers, and going on to 0.1 took up to 50%
more time for answers that were about as good."""
LEAST_GAIN = 0.01
"""A chain is trained only if it reduces the variance of uncertain answers by at least this share."""
DRAWS, DENSITIES = 400, 80
TINY = 1e-18
"""Avoids division by zero if nothing is uncertain."""
FLATTEST = 0.1
"""The least slope of a curve, in logarithms, by which doubt about errors becomes doubt about densities."""
USUAL_BETA, ROUGH_DEVIATION = 0.45, 0.2
"""Exponent and deviation of the guess at unpruned errors without a dense law."""


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """What is known about the smallest network for one target."""

    target_error: float
    choice: Choice | None
    """the answer so far; None if none can be given yet"""
    doubt: float
    """standard deviation of the log size of the smallest network that meets the target with the wanted confidence;
    infinite before a law can be fitted"""
    sizes: tuple[float, float]
    """the interval in which that size lies with a probability of 90%"""

    def known_within(self, doubt: float) -> bool:
        """Whether the law is usable, and its answer in no more doubt than this."""
        return self.choice is not None and self.choice.verdict.usable and self.doubt <= doubt


def answers_so_far(
    fit: Fit, targets: Sequence[float], examples: float, minimise: str, confidence: float
) -> list[Choice | None]:
    """What `choose` answers for each target; None for all if it refuses.

    It refuses if no network with this number of examples was trained yet, or if a target is out of reach.
    """
    try:
        return list(
            choose_each(fit, targets, confidence=confidence, minimise=minimise, num_examples=examples)
        )
    except PrunecastError:
        return [None] * len(targets)


def rough_dense(fit: Fit, num_examples: float) -> DenseLaw:
    """A guess at unpruned errors, if too few were measured for a law: ε̃ = b·M^−β with a usual β."""
    near = [c for c in fit.configurations if c.num_examples == num_examples]
    known = near or list(fit.configurations)
    ceiling = max([fit.high_error, *(1.01 * c.unpruned_error for c in known)])
    share = np.array([c.unpruned_error / ceiling for c in known])
    scale = share / np.sqrt(1 - share**2) * np.array([c.weights for c in known]) ** USUAL_BETA
    values = {
        "eta": 1.0,
        "ceiling": ceiling,
        "a": 0.0,
        "alpha": 1.0,
        "beta": USUAL_BETA,
        "floor": 0.0,
        "delta": 0.0,
    }
    values["b"] = float(np.exp(np.log(scale).mean()))
    return DenseLaw(parameters=values, deviation=ROUGH_DEVIATION, configurations=len(known), free=1)


@dataclass(frozen=True, kw_only=True)
class _Crossing:
    """Where the curves of some networks reach an error, and draws of log ε there, shape (draws, networks)."""

    log_density: Floats
    slope: Floats
    """how much log ε falls with log density"""
    drawn: Floats
    """deviations from the median"""
    of_unpruned: Floats
    """the part of `drawn` that measuring the unpruned error would determine"""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """The law's view of the answers, and of every chain that could be trained."""

    given: Fit
    fit: Fit
    """the same, with a guess at unpruned errors if it has no dense law"""
    grid: Grid
    examples: float
    minimise: str
    confidence: float
    networks: Candidates
    """one for each chain of the grid, then sizes between them, which can also be the answer"""
    place: Integers
    """for each network, the first chain of its or the nearest size; the law misses both alike"""

    @classmethod
    def of(cls, fit: Fit, grid: Grid, examples: float, minimise: str, confidence: float) -> "Outlook":
        """The grid's networks, and those between them, as the law sees them."""
        given = fit
        fit = fit if fit.dense is not None else replace(fit, dense=rough_dense(fit, examples))
        depth, width, num_examples = np.array([chain.size for chain in grid.chains], dtype=float).T
        networks = candidates_at(fit, depth, width, num_examples)
        first: dict[tuple[float, float, float], int] = {}
        place = [first.setdefault(chain.size, index) for index, chain in enumerate(grid.chains)]
        between = candidates(fit, examples)
        between = between[~between.measured & ~between.outside & (given.dense is not None)]
        sizes = np.array(list(first.values()))
        apart = [
            np.log(own[:, None] / known[sizes])
            for own, known in ((between.depth, depth), (between.width, width))
        ]
        nearest = sizes[(apart[0] ** 2 + apart[1] ** 2).argmin(axis=1)]
        return cls(
            given=given,
            fit=fit,
            grid=grid,
            examples=examples,
            minimise=minimise,
            confidence=confidence,
            networks=networks.joined(between),
            place=np.concatenate([np.array(place), nearest]),
        )

    @cached_property
    def _log_densities(self) -> Floats:
        lowest = math.log(self.fit.kept_per_level) * max(chain.level_cap for chain in self.grid.chains)
        return np.linspace(lowest, 0.0, DENSITIES)

    @cached_property
    def _curves(self) -> Floats:
        """The median of log ε, shape (densities, networks)."""
        count, grid = len(self.networks), self._log_densities
        every = np.tile(np.arange(count), len(grid))
        some = self.networks[every]
        points = some.points(self.fit, np.exp(np.repeat(grid, count)))
        return predictive(self.fit).median(points, some.own).reshape(len(grid), count)

    def _reached(self, log_error: Floats) -> tuple[Floats, Floats]:
        """The lowest log density at which each curve is at most at an error, and its slope; 0 if it never is."""
        grid, curves = self._log_densities, self._curves
        met = curves <= log_error
        first = np.where(met.any(axis=0), met.argmax(axis=0), len(grid) - 1)
        each, before = np.arange(curves.shape[1]), np.maximum(first - 1, 0)
        drop = curves[before, each] - curves[first, each]
        step = grid[1] - grid[0]
        share = np.clip((curves[before, each] - log_error) / np.maximum(drop, 1e-9), 0.0, 1.0)
        at = np.where(met.any(axis=0), grid[before] + share * step, 0.0)
        return np.where(first == 0, grid[0], at), np.maximum(drop / step, FLATTEST)

    @cached_property
    def _unpruned(self) -> Floats:
        return np.log(self.networks.expected_unpruned_error)

    @cached_property
    def _noise(self) -> Floats:
        """Of single training runs of each network."""
        points = self.networks.points(self.fit, np.ones(len(self.networks)))
        return predictive(self.fit).noise(points)

    @cached_property
    def _log_targets(self) -> list[float]:
        """The median log errors of networks whose new runs meet the targets with the wanted confidence."""
        allowance = quantile(self.fit, self.confidence) * predictive(self.fit).scatter.noise
        return [math.log(target) - allowance for target in self.grid.targets]

    def _crossing(self, log_target: float) -> _Crossing:
        """Where each chain tells most about a target: at the target, or where its curve has risen if it misses that."""
        fit, networks, rng = self.fit, self.networks, np.random.default_rng(0)
        reachable = self._curves.min(axis=0) <= log_target
        at, slope = self._reached(np.where(reachable, log_target, self._unpruned + math.log(SEEN)))
        points, own = networks.points(fit, np.exp(at)), networks.own
        found = predictive(fit).of(points, own, networks.unpruned_std)
        mean, form = average(fit, points), fit.form()
        draws = np.resize(fit.spread.draws, (DRAWS, fit.spread.draws.shape[1]))
        shared = form.log_error(draws, points) - form.log_error(fit.spread.centre[None], points)
        shared = shared + rng.standard_normal((DRAWS, len(mean.doubt))) @ mean.doubt
        variance = np.maximum(found.spread**2 - self._noise**2, 0.0)
        shared = self._left_to_law(shared, variance)
        alone = np.maximum(variance - (shared**2).mean(axis=0), 0.0)
        unpruned = np.where(own >= 0, 0.0, np.abs(mean.unpruned_slope) * networks.unpruned_std)
        unpruned = np.minimum(unpruned, np.sqrt(alone))
        normal = rng.standard_normal((2, DRAWS, len(networks)))[:, :, self.place]
        of_unpruned, rest = unpruned * normal[0], np.sqrt(np.maximum(alone - unpruned**2, 0.0)) * normal[1]
        return _Crossing(
            log_density=at, slope=slope, drawn=shared + of_unpruned + rest, of_unpruned=of_unpruned
        )

    def _left_to_law(self, shared: Floats, variance: Floats) -> Floats:
        """The law's shared error at the networks, reduced for networks that were trained.

        A trained curve removes it. An unpruned network leaves at most the uncertainty of its own curve.
        """
        over = {chain.size for chain in self.grid.chains if self.grid.is_over(chain)}
        limit = np.minimum(np.sqrt(variance / np.maximum((shared**2).mean(axis=0), TINY)), 1.0)
        for index, chain in enumerate(self.grid.chains):
            if self.networks.own[index] >= 0:
                shared[:, index] *= 0.0 if chain.size in over else limit[index]
        return shared

    @cached_property
    def _crossings(self) -> list[_Crossing]:
        return [self._crossing(target) for target in self._log_targets]

    @cached_property
    def _answers(self) -> Floats:
        """Draws of the log size of the smallest network for each target, shape (targets, draws)."""
        largest = np.log(self._sizes(np.zeros(len(self.networks))).max())
        found = []
        for log_target, crossing in zip(self._log_targets, self._crossings, strict=True):
            needed = crossing.log_density + crossing.drawn / crossing.slope
            missed = self._curves.min(axis=0) - log_target
            needed = np.where(missed > 0, (missed + crossing.of_unpruned) / (5 * FLATTEST), needed)
            size = np.where(needed <= 0, self._sizes(np.minimum(needed, 0.0)), np.inf)
            found.append(np.minimum(np.log(size.min(axis=1)), largest))
        return np.array(found)

    def _sizes(self, log_density: Floats) -> Floats:
        """The sizes of the networks at densities of shape (..., networks)."""
        return sizes_along(self.fit, self.minimise, self.networks, np.exp(log_density))

    def states(self) -> Iterator[TargetState]:
        """What is known about each target."""
        known = answers_so_far(self.given, self.grid.targets, self.examples, self.minimise, self.confidence)
        for target, choice, drawn in zip(self.grid.targets, known, self._answers, strict=True):
            low, high = np.exp(np.quantile(drawn, [0.05, 0.95]))
            yield TargetState(
                target_error=target, choice=choice, doubt=float(drawn.std()), sizes=(float(low), float(high))
            )

    def steps(self) -> Iterator[NextStep]:
        """Everything worth training, sorted by the reduction of doubt per second."""
        chains = self.grid.chains
        open_ = np.array([not self.grid.is_over(chain) for chain in chains])
        fresh = np.array([not chain.errors for chain in chains]) & (self.networks.own[: len(chains)] < 0)
        seconds = np.array([chain.seconds for chain in chains])
        whole, unpruned = self._gain(unpruned=False), self._gain(unpruned=True)
        runs = self.levels_left
        options = [
            (gain / cost, index, kind, gain, cost)
            for kind, gains, costs, which in (
                (Reason.CURVE, whole, seconds * runs, open_),
                (Reason.UNPRUNED, unpruned, seconds, open_ & fresh),
            )
            for index in np.flatnonzero(which).tolist()
            if (gain := float(gains[index])) >= LEAST_GAIN and (cost := float(costs[index])) > 0
        ]
        seen: set[int] = set()
        for _, index, kind, gain, cost in sorted(options, key=lambda one: -one[0]):
            if index not in seen:
                seen.add(index)
                yield self.grid.step(chains[index], kind, gain=gain, seconds=cost)

    def unweighed(self) -> Iterator[NextStep]:
        """What is left to train if no chain is expected to reduce the doubt much.

        Curves that end near the targets hide errors of the law, so one curve is trained to its end. Then come networks
        that may be the smallest for a target, by their unpruned errors, then all other whole curves, beginning with
        networks similar to the smallest ones.
        """
        sizes = self.grid.sizes
        if not any(chain.is_whole and len(chain.errors) > 1 for chain in sizes):
            longest = max(sizes, key=lambda chain: len(chain.errors))
            if not longest.is_whole:
                yield whole(longest, Reason.SHAPE)
                return
        unpruned, one_of_each = np.exp(self._unpruned).tolist(), set(sizes)
        ratios = {
            chain: [error / target for target in self.grid.targets]
            for chain, error in zip(self.grid.chains, unpruned, strict=False)
            if chain in one_of_each and not chain.is_whole
        }
        left = sorted(
            ratios, key=lambda chain: min(abs(math.log(own / BEST_UNPRUNED)) for own in ratios[chain])
        )
        likely = [
            chain
            for chain in left
            if not self.grid.is_over(chain)
            and any(LOWEST_UNPRUNED < ratio < HIGHEST_UNPRUNED for ratio in ratios[chain])
        ]
        taken = set(likely)
        yield from (self.grid.step(chain, Reason.LIKELY) for chain in likely)
        yield from (whole(chain, Reason.REST) for chain in left if chain not in taken)

    def _gain(self, *, unpruned: bool) -> Floats:
        """The share by which observing each chain reduces the variance of the uncertain answers."""
        count = len(self.grid.chains)
        total, whole = np.zeros(count), 0.0
        for answer, crossing in zip(self._answers, self._crossings, strict=True):
            centred = answer - answer.mean()
            variance = float((centred**2).mean())
            if variance <= SETTLED**2:
                continue
            seen = (crossing.of_unpruned if unpruned else crossing.drawn)[:, :count]
            seen = seen - seen.mean(axis=0)
            covariance = centred @ seen / len(seen)
            explained = covariance**2 / ((seen**2).mean(axis=0) + self._noise[:count] ** 2)
            total += np.maximum(explained - variance / DRAWS, 0.0)  # less what chance explains
            whole += variance
        return total / whole if whole else total

    @cached_property
    def levels_left(self) -> Floats:
        """Training runs until each chain's error has risen enough."""
        chains = self.grid.chains
        unpruned = np.exp(self._unpruned)
        at, _ = self._reached(np.log([self.grid.stop_error(error) for error in unpruned.tolist()]))
        last = np.ceil(at[: len(chains)] / math.log(self.fit.kept_per_level))
        caps = np.array([chain.level_cap for chain in chains])
        done = np.array([len(chain.errors) for chain in chains])
        return np.asarray(np.maximum(np.minimum(last, caps) + 1 - done, 1.0))

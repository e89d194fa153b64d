"""What to train next, so that the smallest network for some errors is known soon, or that enough was trained.

A decision depends on nothing but what was trained so far, so it can be made again after an interruption. It begins with
the unpruned networks at the corners and in the middle of the grid. Then come whole curves of such networks on few
examples, where the grid has them: they cost little and show the shape of the law. Then comes the curve of the network
that should be about best for a target. From then on a law is fitted, and the smallest network for a target is as
uncertain as the predictive distribution says: draws of it give draws of the answer. Training a chain measures its
errors near the target. What is left of the answer's variance after that is a linear regression of the answer on these
errors, and the chain that takes the most off it per second comes next.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from prunecast.choice import (
    DEFAULT_CONFIDENCE,
    Candidates,
    Choice,
    Measure,
    candidates,
    candidates_at,
    choose_each,
    counter,
    quantile,
    sizes_along,
)
from prunecast.errors import PrunecastError
from prunecast.laws import (
    AUTO,
    DenseLaw,
    Fit,
    Floats,
    Integers,
    average,
    fit,
    fit_dense,
    measured,
    predictive,
)
from prunecast.table import Table

MARGIN, RISE = 1.15, 1.6
"""A chain ends once its error is this many times the highest target, and this many times its unpruned error."""
BEST_UNPRUNED, HIGHEST_UNPRUNED, LOWEST_UNPRUNED = 0.8, 0.95, 0.35
"""The smallest network for a target mostly has about this share of it as its unpruned error, and hardly ever more or
less than these."""
FIRST_SIZES, FIRST_CURVES = 5, 2
"""Unpruned networks, which a law of unpruned errors needs, and curves near the targets, that are trained before any
doubt is weighed; one curve is enough where others show the shape of the law."""
FEW_EXAMPLES = 1 / 30
"""The share of the examples up to which curves are cheap: five whole ones take a sixth of the time of one on all, or
more where training runs are too short to use the device. Replayed searches needed more seconds with a tenth."""
HIGHEST_ERROR = 1.0
"""No error is above this, so a curve that is trained until then is trained to its end."""
SIMILAR = 0.8
"""Unpruned errors are about the same from this ratio on."""
SEEN = 1.3
"""A network that misses a target shows the law at this many times its unpruned error."""
SETTLED, ENOUGH = 0.1, 0.25
"""The answer's doubt, as the standard deviation of its log size, below which it is settled, and below which a search
ends: going on to 0.1 took up to 40% more seconds on measured grids, and left answers about as far off."""
LEAST_GAIN = 0.01
"""No chain is trained that takes less than this share off the variance of the answers in doubt."""
FRONTIER_TARGETS = 5
LOWEST_TARGET, HIGHEST_TARGET = 1.25, 0.5
"""Without a target, those between this multiple of the least unpruned error and this share of the highest error."""
DRAWS, DENSITIES = 400, 80
FLATTEST = 0.1
"""The least slope of a curve, in logarithms, by which doubt about errors becomes doubt about densities."""
USUAL_BETA, ROUGH_DEVIATION = 0.45, 0.2
"""Exponent and deviation of the guess at unpruned errors where there is no law of them."""


@dataclass(frozen=True, kw_only=True)
class GridChain:
    """One chain of a grid, and how far it was trained."""

    depth: float
    width: float
    num_examples: float
    replicate: int = 0
    level_cap: int = 40
    seconds: float = 1.0
    """of one training run"""
    errors: tuple[float, ...] = ()
    """of its levels so far"""
    ended: bool = False
    """whether it can be trained no further"""

    @property
    def size(self) -> tuple[float, float, float]:
        """Depth, width and number of examples."""
        return self.depth, self.width, self.num_examples


def stop_error(targets: Sequence[float], unpruned_error: float, highest_unpruned: float = math.inf) -> float:
    """The error from which on further levels of a chain do not matter for the targets.

    Targets far above its unpruned error are for smaller networks, unless the grid has none: `highest_unpruned` is the
    largest unpruned error of its networks.
    """
    near = [own for own in targets if own <= unpruned_error / LOWEST_UNPRUNED or own == min(targets)]
    if unpruned_error >= SIMILAR * highest_unpruned:
        near = list(targets)
    return max(MARGIN * max(near), RISE * unpruned_error)


def frontier_targets(unpruned_errors: Sequence[float], highest_error: float) -> tuple[float, ...]:
    """Five errors over the range of some networks, to two digits, so that they hardly change while more is trained.

    `highest_error` is what the networks' errors rise to: the error of guessing, or the law's high plateau. Where the
    unpruned errors are not far below it, the targets lie between the two, so that networks can meet them.
    """
    least = min(unpruned_errors)
    lowest = min(LOWEST_TARGET * least, float(np.sqrt(least * highest_error)))
    highest = max(HIGHEST_TARGET * highest_error, float(np.sqrt(lowest * highest_error)))
    return tuple(float(f"{target:.2g}") for target in np.geomspace(lowest, highest, FRONTIER_TARGETS))


class Reason(StrEnum):
    """Why something is trained."""

    START = "start"
    """an unpruned network of the starting design"""
    FIRST_CURVE = "first curve"
    """the curve of the network that should be about best for a target, before a law can be fitted"""
    LAW = "law"
    """a whole curve on few examples, which shows the shape of the law at little cost"""
    UNPRUNED = "unpruned"
    """its unpruned error takes the most off the doubt per second"""
    CURVE = "curve"
    """its curve takes the most off the doubt per second"""
    LIKELY = "likely"
    """nothing is expected to take much off the doubt, and it may be the smallest network itself"""


STARTING = {Reason.START, Reason.LAW, Reason.FIRST_CURVE}
"""Reasons of what is trained before any doubt is weighed."""


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """A chain to train next, and how far."""

    chain: GridChain
    until_error: float | None
    """the error from which on no further level is trained; None where the unpruned network comes first"""
    reason: Reason
    gain: float = math.nan
    """expected share taken off the variance of the answers; NaN before a law can be fitted"""
    seconds: float = math.nan
    """what it is expected to take"""


@dataclass(frozen=True, kw_only=True)
class TargetState:
    """What is known about the smallest network for one target."""

    target_error: float
    choice: Choice | None
    """the answer so far; None where none can be given yet"""
    doubt: float
    """standard deviation of the log size of the smallest network that meets the target with the confidence asked for;
    infinite before a law can be fitted"""
    sizes: tuple[float, float]
    """in which it lies with a probability of 90%"""

    @property
    def settled(self) -> bool:
        """Whether more training would hardly change the answer."""
        return self._known_within(SETTLED)

    @property
    def enough(self) -> bool:
        """Whether it is known well enough to end a search."""
        return self._known_within(ENOUGH)

    def _known_within(self, doubt: float) -> bool:
        return self.choice is not None and self.choice.verdict.usable and self.doubt <= doubt


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to train next, best first, and what is known so far."""

    steps: tuple[NextStep, ...]
    """empty where nothing is left to train"""
    states: tuple[TargetState, ...]
    fit: Fit | None

    @property
    def enough(self) -> bool:
        """Whether all answers are known well enough; never before the starting design is trained."""
        return not self._starting and all(state.enough for state in self.states)

    @property
    def settled(self) -> bool:
        """Whether more training would hardly change any answer."""
        return not self._starting and all(state.settled for state in self.states)

    @property
    def _starting(self) -> bool:
        return any(step.reason in STARTING for step in self.steps)


def decide(
    table: Table | None,
    grid: Sequence[GridChain],
    targets: Sequence[float],
    *,
    num_examples: float | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    minimise: str = Measure.STORED,
    law: str = AUTO,
) -> Decision:
    """What to train next of a grid, given the rows so far.

    The answer is about `num_examples` examples, by default the largest number of the grid. Chains on a thirtieth of
    them or fewer show the shape of the law; others are not trained.
    """
    examples = num_examples or max(chain.num_examples for chain in grid)
    there = Grid(chains=[chain for chain in grid if chain.num_examples == examples], targets=targets)
    fitted = None if table is None else _fitted(table, law)
    start = tuple(_start(table, there, law_chains(grid, examples)))
    if fitted is None or not there.pruned:
        unknown = tuple(
            TargetState(target_error=target, choice=None, doubt=math.inf, sizes=(0.0, math.inf))
            for target in targets
        )
        return Decision(steps=start or tuple(_any(there)), states=unknown, fit=fitted)
    outlook = Outlook.of(fitted, there, examples, minimise, confidence)
    states = tuple(outlook.states())
    steps = start or tuple(outlook.steps()) or tuple(outlook.likely())
    return Decision(steps=steps, states=states, fit=fitted)


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The chains on the number of examples asked about, and the targets."""

    chains: Sequence[GridChain]
    targets: Sequence[float]

    @property
    def pruned(self) -> bool:
        """Whether any network was pruned; from curves on fewer examples alone, answers would be far off."""
        return any(len(chain.errors) > 1 for chain in self.chains)

    @cached_property
    def highest_unpruned(self) -> float:
        """The largest unpruned error that was measured."""
        return max((chain.errors[0] for chain in self.chains if chain.errors), default=math.inf)

    def stop_error(self, unpruned_error: float) -> float:
        """The error from which on further levels of a chain do not matter."""
        return stop_error(self.targets, unpruned_error, self.highest_unpruned)

    def is_over(self, chain: GridChain) -> bool:
        """Whether further levels of a chain cannot matter, or there are none."""
        errors = chain.errors
        risen = bool(errors) and errors[-1] > self.stop_error(errors[0])
        return chain.ended or risen or len(errors) > chain.level_cap

    def step(self, chain: GridChain, reason: Reason, **expected: float) -> NextStep:
        """A step with a chain: its unpruned network first, whose error decides whether and how far to continue."""
        until = self.stop_error(chain.errors[0]) if chain.errors else None
        return NextStep(chain=chain, until_error=until, reason=reason, **expected)

    @cached_property
    def sizes(self) -> list[GridChain]:
        """One chain of each size, the one trained furthest."""
        return _one_of_each(self.chains)


def _one_of_each(chains: Sequence[GridChain]) -> list[GridChain]:
    """One chain of each size, the one trained furthest."""
    best: dict[tuple[float, float, float], GridChain] = {}
    for chain in chains:
        known = best.get(chain.size)
        if known is None or len(chain.errors) > len(known.errors):
            best[chain.size] = chain
    return list(best.values())


def law_chains(grid: Sequence[GridChain], examples: float) -> list[GridChain]:
    """The chains whose whole curves show the shape of the law: on the most examples that are few enough to be cheap."""
    few = [chain for chain in grid if chain.num_examples <= FEW_EXAMPLES * examples]
    most = max((chain.num_examples for chain in few), default=0.0)
    sizes = _one_of_each([chain for chain in few if chain.num_examples == most])
    return spread_out(sizes) if sizes else []


def _fitted(table: Table, law: str) -> Fit | None:
    """The law, if there is enough for one."""
    if not (table.frame["density"] < 1).any():
        return None
    try:
        found = fit(table, law=law)
    except PrunecastError:  # too few rows so far
        return None
    return found if found.rises else None


def _start(table: Table | None, grid: Grid, for_law: Sequence[GridChain]) -> Iterator[NextStep]:
    """What is left of the starting design."""
    missing = [chain for chain in spread_out(grid.sizes) if not chain.errors and not chain.ended]
    if missing or table is None:
        for chain in missing:
            yield grid.step(chain, Reason.START, seconds=chain.seconds)
        return
    short = [chain for chain in for_law if not chain.ended and len(chain.errors) <= chain.level_cap]
    if short:
        for chain in short:
            yield NextStep(chain=chain, until_error=HIGHEST_ERROR, reason=Reason.LAW)
        return
    over = [chain for chain in grid.sizes if grid.is_over(chain)]
    if len(over) >= min(1 if for_law else FIRST_CURVES, len(grid.sizes)):
        return
    unpruned = _unpruned_errors(table, grid.sizes)
    open_ = [
        (chain, error) for chain, error in zip(grid.sizes, unpruned, strict=True) if not grid.is_over(chain)
    ]
    for target in sorted(grid.targets):
        chain, _ = min(open_, key=lambda own: _unlikely(own[1] / target))
        yield grid.step(chain, Reason.FIRST_CURVE)


def _unlikely(unpruned_share: float) -> float:
    """How unlikely a network is the smallest one for a target, by its unpruned error as a share of the target."""
    return abs(math.log(unpruned_share / BEST_UNPRUNED)) + (unpruned_share > HIGHEST_UNPRUNED)


def spread_out(chains: Sequence[GridChain]) -> list[GridChain]:
    """The networks at the corners and in the middle of the grid, and others far from these, the cheapest first."""
    places = np.log([[chain.depth, chain.width] for chain in chains])
    places = (places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-12)
    found: dict[int, None] = {}
    for share in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5)]:
        found[int(((places - share) ** 2).sum(axis=1).argmin())] = None
    while len(found) < min(FIRST_SIZES, len(chains)):
        apart = ((places[:, None] - places[list(found)]) ** 2).sum(axis=-1).min(axis=1)
        found[int(apart.argmax())] = None
    return sorted((chains[index] for index in found), key=lambda chain: chain.seconds)


def _unpruned_errors(table: Table, chains: Sequence[GridChain]) -> list[float]:
    """As measured, by the dense law, or as of the nearest network that was trained."""
    points = measured(table).points
    dense = fit_dense(points, table.chance)
    known = {
        (points.depth[i], points.width[i], points.num_examples[i]): points.unpruned[i]
        for i in range(points.configurations)
    }
    volume = np.log(points.depth * points.width**2)
    found = []
    for chain in chains:
        own = known.get(chain.size)
        if own is None:
            place = math.log(chain.depth * chain.width**2)
            nearest = int(np.abs(volume - place).argmin())
            own = points.unpruned[nearest]
            if dense is not None:
                weights = np.exp(np.log(points.weights[nearest]) + place - volume[nearest])
                asked = (weights, chain.num_examples, chain.depth)
                own = float(dense.predict(*(np.array(value) for value in asked)))
        found.append(float(own))
    return found


def _any(grid: Grid) -> Iterator[NextStep]:
    """Where no law can be fitted although the design is trained: the rest of the grid, the cheapest first."""
    left = [chain for chain in grid.chains if not grid.is_over(chain)]
    for chain in sorted(left, key=lambda chain: (len(chain.errors) == 0, chain.seconds)):
        yield grid.step(chain, Reason.FIRST_CURVE)


def rough_dense(fit: Fit, num_examples: float) -> DenseLaw:
    """A guess at unpruned errors where too few were measured for a law: ε̃ = b·M^−β with a usual β."""
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
    """the part of `drawn` that measuring the unpruned error takes away"""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What a law says of the answers, and of every chain that could be trained."""

    given: Fit
    fit: Fit
    """the same, with a guess at unpruned errors where there is no law of them"""
    grid: Grid
    examples: float
    minimise: str
    confidence: float
    networks: Candidates
    """those of the chains of the grid, one each, then sizes between them, which may be the answer, too"""
    place: Integers
    """of each network, the first chain of its size, or of the size nearest to it: they are wrong together"""

    @classmethod
    def of(cls, fit: Fit, grid: Grid, examples: float, minimise: str, confidence: float) -> "Outlook":
        """The grid's networks, and those between them, as the law sees them."""
        given, how = fit, counter(fit)
        fit = fit if fit.dense is not None else replace(fit, dense=rough_dense(fit, examples))
        depth, width, num_examples = np.array([chain.size for chain in grid.chains], dtype=float).T
        networks = candidates_at(fit, how, depth, width, num_examples)
        first: dict[tuple[float, float, float], int] = {}
        place = [first.setdefault(chain.size, index) for index, chain in enumerate(grid.chains)]
        between = candidates(fit, how, examples)
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
        """The lowest log density at which each curve is at an error or below, and its slope; 0 where it never is."""
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
        """The log errors to expect of networks whose new runs meet the targets with the confidence asked for."""
        allowance = quantile(self.fit, self.confidence) * predictive(self.fit).scatter.noise
        return [math.log(target) - allowance for target in self.grid.targets]

    def _crossing(self, log_target: float) -> _Crossing:
        """Where each chain informs most about a target: there, or where its curve has risen if it misses the target."""
        fit, networks, rng = self.fit, self.networks, np.random.default_rng(0)
        reachable = self._curves.min(axis=0) <= log_target
        at, slope = self._reached(np.where(reachable, log_target, self._unpruned + math.log(SEEN)))
        points, own = networks.points(fit, np.exp(at)), networks.own
        found = predictive(fit).of(points, own, networks.unpruned_std)
        mean, form = average(fit, points), fit.form()
        draws = np.resize(fit.spread.draws, (DRAWS, fit.spread.draws.shape[1]))
        shared = form.log_error(draws, points) - form.log_error(fit.spread.centre[None], points)
        shared = shared + rng.standard_normal((DRAWS, len(mean.doubt))) @ mean.doubt
        shared[:, own >= 0] = 0.0  # its own curve knows better
        alone = np.maximum(found.spread**2 - self._noise**2 - (shared**2).mean(axis=0), 0.0)
        unpruned = np.where(own >= 0, 0.0, np.abs(mean.unpruned_slope) * networks.unpruned_std)
        unpruned = np.minimum(unpruned, np.sqrt(alone))
        normal = rng.standard_normal((2, DRAWS, len(networks)))[:, :, self.place]
        of_unpruned, rest = unpruned * normal[0], np.sqrt(np.maximum(alone - unpruned**2, 0.0)) * normal[1]
        return _Crossing(
            log_density=at, slope=slope, drawn=shared + of_unpruned + rest, of_unpruned=of_unpruned
        )

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
        try:
            known: list[Choice | None] = list(
                choose_each(
                    self.given,
                    self.grid.targets,
                    confidence=self.confidence,
                    minimise=self.minimise,
                    num_examples=self.examples,
                )
            )
        except PrunecastError:  # no network of this number of examples is there yet, or a target out of reach
            known = [None] * len(self.grid.targets)
        for target, choice, drawn in zip(self.grid.targets, known, self._answers, strict=True):
            low, high = np.exp(np.quantile(drawn, [0.05, 0.95]))
            yield TargetState(
                target_error=target, choice=choice, doubt=float(drawn.std()), sizes=(float(low), float(high))
            )

    def steps(self) -> Iterator[NextStep]:
        """Everything worth training, from what takes the most off the doubt per second on."""
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

    def likely(self) -> Iterator[NextStep]:
        """The chains left whose network may be the smallest one for a target, by its unpruned error."""
        unpruned = np.exp(self._unpruned).tolist()
        found = [
            (min(_unlikely(error / target) for target in self.grid.targets), index)
            for index, (chain, error) in enumerate(zip(self.grid.chains, unpruned, strict=False))
            if chain in self.grid.sizes
            and not self.grid.is_over(chain)
            and any(LOWEST_UNPRUNED < error / target < HIGHEST_UNPRUNED for target in self.grid.targets)
        ]
        for _, index in sorted(found):
            yield self.grid.step(self.grid.chains[index], Reason.LIKELY)

    def _gain(self, *, unpruned: bool) -> Floats:
        """The share that observing each chain takes off the variance of the answers that are in doubt."""
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

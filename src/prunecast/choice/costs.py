"""What networks cost according to the table: bytes, latency and, if channels were removed, multiply-adds.

The table gives a cost at measured sizes and densities. Between densities, log cost is interpolated over log density;
below the lowest density it is constant. Other sizes have no known cost and are left out, except that latency is
predicted if enough sizes were timed and such predictions are good, or if the question names a size.

Removing a channel also removes its biases and norms, so stored parameters are not linear in density. The share of
these parameters that is left at a density, and the level that reaches it, are interpolated from the table; a size that
is not in the table follows the sizes near it.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from prunecast.choice.counts import SAME_COST, counter, removes_channels
from prunecast.choice.latency import LATENCY, POOR_LATENCY, OtherLatency, latency_predictor
from prunecast.choice.options import Options, kept_per_level, size_line
from prunecast.choice.question import Measure, Question, as_measure
from prunecast.choice.sizes import Candidates
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, Floats, Integers, Mask
from prunecast.table import other_latency

SAME_SHARE = 1e-4
"""Shares and numbers of levels that differ by less count as equal."""
COLUMNS = {
    Measure.BYTES: "bytes",
    Measure.LATENCY: LATENCY,
    Measure.MULTIPLY_ADDS: "multiply_adds",
}
REMAINING = "remaining_parameters"
TRIED = 256
"""Densities of a network that are tried to keep to a budget where its latency is predicted."""


@dataclass(frozen=True, kw_only=True)
class RemovedChannels:
    """What is left after channels were removed, by configuration and density."""

    index: Integers
    """the configurations of the fit that such a curve is known of"""
    places: Floats
    """their log depth and log width"""
    log_density: tuple[Floats, ...]
    """of each configuration's levels, in ascending order"""
    left: tuple[Floats, ...]
    """the share of biases and norms that is left at these densities"""

    @classmethod
    def of(cls, fit: Fit) -> Self | None:
        """Read the curves from a table; None if it does not count parameters, or if only weights were removed."""
        index, places, densities, left = [], [], [], []
        for place, own in enumerate(fit.configurations):
            curve = own.costs.get(REMAINING, ())
            if not curve or not own.never_pruned or not fit.counted:
                continue
            density, remaining = np.array(curve).T
            share = np.clip((remaining - density * own.weights) / own.never_pruned, 0.0, 1.0)
            index.append(place)
            places.append([own.depth, own.width])
            densities.append(np.log(density))
            left.append(share)
        if not any((share < 1 - SAME_SHARE).any() for share in left):
            return None
        return cls(
            index=np.array(index), places=np.log(places), log_density=tuple(densities), left=tuple(left)
        )

    def others_left(self, networks: Candidates, density: Floats) -> Floats:
        """The share of biases and norms that is left, for densities of shape (..., networks)."""
        return self._mean(networks, density, self.left)

    def levels(self, networks: Candidates, density: Floats, kept: float) -> Integers:
        """The level that reaches each density; below the measured ones, each level keeps this share of the weights."""
        counted = tuple(np.arange(len(own), dtype=float)[::-1] for own in self.log_density)
        beyond = [np.maximum(own[0] - np.log(density), 0.0) / -np.log(kept) for own in self.log_density]
        found = self._mean(networks, density, counted, beyond)
        return np.asarray(np.ceil(found - SAME_SHARE), dtype=np.int64)

    def _mean(
        self,
        networks: Candidates,
        density: Floats,
        curves: tuple[Floats, ...],
        added: list[Floats] | None = None,
    ) -> Floats:
        """Each network's own curve at its density, or a mean over all curves that weights near sizes most."""
        at = np.log(np.stack([networks.depth, networks.width], axis=1))
        nearness = 1 / np.maximum(((at[:, None] - self.places) ** 2).sum(axis=2), 1e-24)
        own = networks.own[:, None] == self.index
        nearness = np.where(own.any(axis=1, keepdims=True), own, nearness)
        total = np.zeros(np.shape(density))
        for number, (there, values) in enumerate(zip(self.log_density, curves, strict=True)):
            found = np.interp(np.log(density), there, values)
            total += nearness[:, number] * (found if added is None else found + added[number])
        return np.asarray(total / nearness.sum(axis=1))


@lru_cache(maxsize=8)
def removed_channels(fit: Fit) -> RemovedChannels | None:
    """What is left after channels were removed from a fit's networks; None if single weights were pruned."""
    return RemovedChannels.of(fit)


def from_table(fit: Fit, measure: Measure) -> bool:
    """Whether a measure comes from the table; multiply-adds do if they fall from level to level."""
    return removes_channels(fit) if measure is Measure.MULTIPLY_ADDS else measure in COLUMNS


def flat(fit: Fit, measure: Measure) -> bool:
    """Whether pruning leaves a cost unchanged, as it does for single weights."""
    curves = [[cost for _, cost in c.costs.get(COLUMNS[measure], ())] for c in fit.configurations]
    return all(max(curve) <= min(curve) * (1 + SAME_COST) for curve in curves if curve)


def read_off(fit: Fit, question: Question) -> list[Measure]:
    """The measures of a question that come from the table."""
    asked = [question.minimise, *([] if question.max_latency is None else [Measure.LATENCY])]
    return [measure for measure in dict.fromkeys(asked) if from_table(fit, measure)]


def with_costs(fit: Fit, networks: Candidates, question: Question) -> Candidates:
    """The networks whose costs are known, for a question about costs."""
    for measure in read_off(fit, question):
        known = _known(fit, COLUMNS[measure], networks)
        predictor = latency_predictor(fit) if measure is Measure.LATENCY else None
        if predictor is not None:
            unpruned = np.ones(len(networks))
            off = predictor.deviations(networks.depth, networks.width, unpruned)
            good = known | (off <= POOR_LATENCY)
            networks = networks[good] if good.any() else networks
            continue
        if not known.any():
            remedy = (
                "`prunecast time PLAN -o TABLE` writes one"
                if measure is Measure.LATENCY
                else "tables that `prunecast run` writes have one"
            )
            raise PrunecastError(
                f"{fit.origin.table} has no column {COLUMNS[measure]} on the rows of these networks, so their "
                f"{measure.value} is not known; {remedy}"
            )
        networks = networks[known]
    return networks


def _known(fit: Fit, column: str, networks: Candidates) -> Mask:
    """Whether the table says what a network costs."""
    known = [index >= 0 and column in fit.configurations[index].costs for index in networks.own]
    return np.array(known, dtype=bool)


def cost(fit: Fit, column: str, networks: Candidates, density: Floats) -> Floats:
    """What each network costs at its density; NaN where it is neither in the table nor predicted."""
    found = np.full(len(networks), np.nan)
    for index in np.unique(networks.own[networks.own >= 0]):
        curve = fit.configurations[index].costs.get(column, ())
        if curve:
            at = networks.own == index
            there, values = np.log(np.array(curve)).T
            found[at] = np.exp(np.interp(np.log(density[at]), there, values))
    unknown = np.flatnonzero(np.isnan(found))
    predictor = latency_predictor(fit, column) if column.startswith(LATENCY) and len(unknown) else None
    if predictor is not None:
        some = networks[unknown]
        found[unknown] = predictor.model.predict(some.depth, some.width, density[unknown])
    return found


def latency_bound(fit: Fit, networks: Candidates, density: Floats, confidence: float) -> Floats:
    """An upper limit of each network's latency: the timed one, or a predicted one with this probability."""
    found, predictor = cost(fit, LATENCY, networks, density), latency_predictor(fit)
    if predictor is not None:
        off = predictor.deviations(networks.depth, networks.width, density)
        factor = predictor.factor(confidence, off)
        found = np.where(_known(fit, LATENCY, networks), found, found * factor)
    return found


def latency_interval(
    fit: Fit, networks: Candidates, density: Floats, column: str = LATENCY
) -> tuple[float, float] | None:
    """The interval of the first network's latency, if it is predicted."""
    predictor = latency_predictor(fit, column)
    if predictor is None or _known(fit, column, networks)[0]:
        return None
    off = predictor.deviations(networks.depth, networks.width, density)
    return predictor.interval(float(cost(fit, column, networks, density)[0]), float(off[0]))


def other_latencies(fit: Fit, networks: Candidates, density: Floats) -> tuple[OtherLatency, ...]:
    """The first network's latency in the other runtimes and batches of the table."""
    found = []
    for column in dict.fromkeys(name for own in fit.configurations for name in own.costs):
        way = other_latency(column)
        latency = float(cost(fit, column, networks, density)[0]) if way else np.nan
        if way and np.isfinite(latency):
            interval = latency_interval(fit, networks, density, column)
            own = OtherLatency(runtime=way[0], batch=way[1], milliseconds=latency, interval=interval)
            found.append(own)
    return tuple(found)


def sizes_at(fit: Fit, minimise: str, networks: Candidates, density: Floats) -> Floats:
    """The size of each network at its density in any measure; NaN where it is not known."""
    measure = as_measure(minimise)
    if from_table(fit, measure):
        return cost(fit, COLUMNS[measure], networks, density)
    return sizes_along(fit, measure, networks, density)


def sizes_along(fit: Fit, minimise: str, networks: Candidates, density: Floats) -> Floats:
    """The sizes of networks at densities of shape (..., networks), in a measure that is known at all of them."""
    measure = as_measure(minimise)
    if from_table(fit, measure):
        raise PrunecastError(
            f"{measure.value} is read off the table and not known at all sizes, so only `choose` without --frontier "
            "minimises it; minimise stored, nonzero or paper here"
        )
    offset, slope = size_line(measure, networks)
    removed = removed_channels(fit) if measure is Measure.STORED else None
    if removed is not None:
        offset = np.round(offset * removed.others_left(networks, density))
    return np.asarray(offset + slope * density)


def levels(fit: Fit, options: Options) -> Integers:
    """How many levels lead to each network."""
    kept, removed = kept_per_level(fit), removed_channels(fit)
    if removed is None:
        return options.levels(kept, exact=counter(fit).exact)
    return removed.levels(options.networks, options.density, float(kept))


def known_measures(fit: Fit) -> list[Measure]:
    """Stored parameters, and the table's costs that pruning changes."""
    known = [
        measure
        for measure in COLUMNS
        if from_table(fit, measure)
        and any(COLUMNS[measure] in c.costs for c in fit.configurations)
        and not flat(fit, measure)
    ]
    return [Measure.STORED, *known]


def highest_density(
    fit: Fit, measure: Measure, networks: Candidates, most: float, confidence: float = 0.5
) -> Floats:
    """The highest density of each network that costs no more than this; zero where none does.

    A latency that is predicted stays below with this probability.
    """
    found, known = np.zeros(len(networks)), _known(fit, COLUMNS[measure], networks)
    grid, budget = _densities(fit, measure), np.log(most) + 1e-12
    for place, index in enumerate(networks.own):
        if not known[place]:
            same: Integers = np.full(len(grid), place)
            bound = np.maximum.accumulate(np.log(latency_bound(fit, networks[same], grid, confidence)))
            within = int(np.searchsorted(bound, budget, side="right"))
            found[place] = grid[within - 1] if within else 0.0
            continue
        there, values = np.log(np.array(fit.configurations[index].costs[COLUMNS[measure]])).T
        rising = np.maximum.accumulate(values)
        if rising[-1] <= budget:
            found[place] = 1.0
        elif rising[0] <= budget:
            above = int(np.searchsorted(rising, budget, side="right"))
            ends, sides = there[above - 1 : above + 1], rising[above - 1 : above + 1]
            found[place] = np.exp(ends[0] + (budget - sides[0]) / (sides[1] - sides[0]) * (ends[1] - ends[0]))
    return found


def _densities(fit: Fit, measure: Measure) -> Floats:
    """The densities of predicted networks to try: from the lowest measured one up."""
    curves = [c.costs.get(COLUMNS[measure], ()) for c in fit.configurations]
    lowest = min((density for curve in curves for density, _ in curve), default=1.0)
    return np.append(np.geomspace(lowest, 1, TRIED)[:-1], 1.0)

"""The distribution of a new training run's error, which is behind every answer.

It combines the law with the measured curves: a law that misses a curve will miss it again, and misses similar sizes
alike. The misfit of the law, the noise of a chain and the unpruned error (see `scatter`) are conditioned on the
measured rows, and a new chain adds its own noise. At a measured size, these are its own rows and those of similar
sizes; at other sizes, only the latter. Predictions interpolate between measured densities and sizes. Beyond them they
return to the law, with a variance that grows with the distance. The uncertainty of the parameters, and of the law if
the data allow several, is always included.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from scipy import linalg, special  # `stats` takes longer to import than most fits take

from prunecast.errors import PrunecastError
from prunecast.laws.fitted import FittedLaw
from prunecast.laws.intervals import COVERAGE
from prunecast.laws.points import AXES, Floats, Integers, Mask, Points
from prunecast.laws.scatter import (
    MOST_CURVES,
    TINY,
    Curve,
    Expected,
    Neighbours,
    Others,
    Scatter,
    inferred,
)
from prunecast.laws.sizes import size_of
from prunecast.laws.support import doublings_outside

UNKNOWN = 1.0
"""The standard deviation of an unmeasured log ε_np without a dense law."""
GROWTH, DENSE_GROWTH = 1.5, 3.0
"""How many times its usual deviation a law, and the dense law, deviates more per doubling of a size beyond the measured
ones; determined by fits to the smaller sizes of measured tables."""
SAME_DENSITY, MOST_ROWS = 1e-6, 64
"""Log densities that differ by less belong to one level; from longer curves, so many levels are used, because the time
per curve grows with their third power."""
BLOCK, DRAW_STEP = 1_000, 4
"""How many rows are predicted at a time, which bounds the memory for all draws of the parameters. At measured sizes,
where the parameters matter less, every fourth draw is enough."""


def inputs_of(fit: FittedLaw) -> frozenset[str]:
    """The axes that a prediction by the fitted law or an alternative depends on, besides its unpruned error."""
    return fit.form().inputs.union(*(one.form().inputs for one in fit.alternatives))


@dataclass(frozen=True, kw_only=True)
class Average:
    """The mean of several laws, by their weights: arrays with a value for each row."""

    log_error: Floats
    unpruned_slope: Floats
    """∂log ε̂/∂log ε_np"""
    doubt: Floats
    """√weight · (log ε̂ of a law − the mean), one law per row; the squares add up to the variance between laws"""


def average(fit: FittedLaw, points: Points) -> Average:
    """log ε̂ by the fitted law and its alternatives."""
    laws = [(fit.form(), fit.theta(), 1 - sum(one.weight for one in fit.alternatives))]
    laws += [(one.form(), one.theta(), one.weight) for one in fit.alternatives]
    values, slopes = [], []
    for form, theta, _ in laws:
        stack = form.stack(theta[None], points)
        values.append(stack[0, -1])
        slopes.append(form.unpruned_slope(theta[None], points, stack)[0])
    weight = np.array([share for _, _, share in laws])[:, None]
    mean = (weight * np.array(values)).sum(axis=0)
    return Average(
        log_error=mean,
        unpruned_slope=(weight * np.array(slopes)).sum(axis=0),
        doubt=np.sqrt(weight) * (np.array(values) - mean),
    )


def query(
    fit: FittedLaw, inputs: dict[str, Floats], unpruned: Floats, weights: Floats | None = None
) -> Points:
    """Points in which each row is a configuration, in the paper's units; give the weights if they are known."""
    count = len(unpruned)
    return Points(
        configuration=np.arange(count),
        level=np.zeros(count, dtype=np.int64),
        density=inputs["density"],
        error=np.ones(count),
        replicates=np.ones(count),
        nonzero=np.ones(count),
        weights=size_of(fit, inputs["depth"], inputs["width"]) if weights is None else weights,
        depth=inputs["depth"],
        width=inputs["width"],
        num_examples=np.maximum(inputs["num_examples"], 1.0),
        unpruned=unpruned,
        unpruned_replicates=np.ones(count),
        reference_depth=1.0,
        reference_examples=fit.reference_examples,
    )


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """Of log ε of a new training run: Student's t with the degrees of the fit."""

    log_error: Floats
    """the median"""
    spread: Floats
    """the standard deviation"""
    below: Floats
    """the standard deviation below the median; smaller than `spread` if the data do not show how a curve rises"""


@dataclass(frozen=True, kw_only=True)
class _Law:
    """The law's estimates at some rows, and their uncertainty."""

    average: Average
    doubt: Floats
    """deviations from the law, one per row, whose squares add up to the variance"""


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """A measured configuration, what its neighbours predict, and how far its own rows deviate from that."""

    curve: Curve
    law: _Law
    expected: Expected
    coupled: Floats
    root: Floats
    """the Cholesky factor of the covariance of its rows"""
    surprise: Floats
    """the inverse of that covariance times the deviation of its rows from the expectation"""


@dataclass(frozen=True, eq=False)
class Predictive:
    """The predictions of a fit for new training runs."""

    fit: FittedLaw
    _known: dict[int, tuple[Curve, _Law]] = field(default_factory=dict)
    _all_seen: dict[int, _Seen] = field(default_factory=dict)
    _all_told: dict[tuple[float, ...], Expected] = field(default_factory=dict)

    def of(
        self, points: Points, own: Integers, unpruned_std: Floats, given: Mask | None = None
    ) -> Distribution:
        """The distribution of new runs of networks; each row of `points` is a configuration.

        `own` is the index of the measured configuration, or −1 if the size was not measured; `unpruned_std` is then the
        standard deviation of log ε_np. If ε_np is `given`, the law alone answers.
        """
        median, variance, least = np.zeros((3, len(points)))
        alone = np.zeros(len(points), dtype=bool) if given is None else given
        for which, answer in ((alone, self._by_law), ((own < 0) & ~alone, self._elsewhere)):
            for rows in _blocks(np.flatnonzero(which)):
                median[rows], variance[rows] = answer(points.each(rows), unpruned_std[rows])
        for index, of_one in _by_configuration(own):
            for rows in _blocks(of_one):
                median[rows], variance[rows] = self.at(index, points.density[rows])
        for rows in _blocks(np.arange(len(points))) if len(self.fit.spread.possible) else ():
            least[rows] = self._undetermined(points.each(rows))
        variance = np.maximum(variance, least**2)
        rise = self.fit.spread.open_slope * self._below(points.density, own)
        return Distribution(log_error=median, spread=np.sqrt(variance + rise**2), below=np.sqrt(variance))

    def median(self, points: Points, own: Integers) -> Floats:
        """The medians of `of`, which cost less."""
        found, others = average(self.fit, points).log_error.copy(), np.flatnonzero(own < 0)
        if len(others):
            found[others] += self._missed(points.each(others))[0]
        for index, rows in _by_configuration(own):
            found[rows] = self.at(index, points.density[rows])[0]
        return found

    def unpruned(self, dense_error: Floats, places: Floats) -> tuple[Floats, Floats]:
        """ε_np to expect at sizes that were not measured, and the standard deviation of its logarithm.

        `dense_error` is what the dense law predicts there; a place is depth, width and number of examples.
        """
        assert self.fit.dense is not None
        told, scale = self._told(_doublings(places)), self.scatter.unpruned
        shift = scale * np.array([one.mean[-1] for one in told])
        std = scale * np.sqrt([one.covariance[-1, -1] for one in told])
        far = doublings_outside(self.fit, dict(zip(AXES, places.T, strict=True)))
        return dense_error * np.exp(shift), np.hypot(std, DENSE_GROWTH * far * self.fit.dense.deviation)

    def noise(self, points: Points) -> Floats:
        """The standard deviation of log ε of one training run of each network in `points`, whatever its density."""
        return self.scatter.noise_of(np.log(points.weights[points.configuration]))

    def _by_law(self, points: Points, unpruned_std: Floats) -> tuple[Floats, Floats]:
        """The median of log ε by the law alone, and its variance."""
        median, variance = self._far(points, unpruned_std)
        return median, variance + self._usual**2

    def _elsewhere(self, points: Points, unpruned_std: Floats) -> tuple[Floats, Floats]:
        """The median of log ε at sizes that were not measured, and its variance."""
        (median, variance), (missed, doubt) = self._far(points, unpruned_std), self._missed(points)
        return median + missed, variance + doubt + self.noise(points) ** 2

    def _far(self, points: Points, unpruned_std: Floats) -> tuple[Floats, Floats]:
        """log ε by the law, and the variance by its parameters, ε_np and the distance from what was measured."""
        law = self._law(points, self.fit.spread.draws)
        far = doublings_outside(self.fit, {name: getattr(points, name) for name in AXES})
        variance = (law.doubt**2).sum(axis=0) + (law.average.unpruned_slope * unpruned_std) ** 2
        return law.average.log_error, variance + (GROWTH * far * self._usual) ** 2

    @property
    def _usual(self) -> float:
        """How far the law usually deviates on configurations that it has not seen."""
        return max(self.fit.spread.run, self.fit.held_out.get(self.fit.family_law, 0.0))

    def _missed(self, points: Points) -> tuple[Floats, Floats]:
        """By how much the law misses sizes that were not measured, apart from ε_np, and the variance."""
        places = np.stack([getattr(points, name) for name in AXES], axis=1)
        every, which = np.unique(_doublings(places), axis=0, return_inverse=True)
        told, x = self._told(every), np.log(points.density)
        mean = np.stack([one.mean for one in told])[which]
        covariance = np.stack([one.covariance for one in told])
        coupled = self.scatter.coupled(x, np.zeros(len(x)))
        variance = self.scatter.variance_alone(x)
        for number, column in enumerate(coupled.T):
            variance += column * (covariance[which, number] * coupled).sum(axis=1)
        return (coupled * mean).sum(axis=1), variance

    def _told(self, places: Floats) -> list[Expected]:
        """What to expect of other sizes, in doublings, given the measured curves."""
        keys = [tuple(place) for place in places.tolist()]
        new = [index for index, key in enumerate(keys) if key not in self._all_told]
        if new:
            self._all_told.update(zip([keys[i] for i in new], self._others.at(places[new]), strict=True))
        return [self._all_told[key] for key in keys]

    def _below(self, density: Floats, own: Integers) -> Floats:
        """How far densities lie below the lowest measured one, of the same size if it was measured: in log density."""
        lowest = np.array([c.lowest_density for c in self.fit.configurations])
        return np.log(np.maximum(np.where(own >= 0, lowest[own], lowest.min()) / density, 1.0))

    def at(self, index: int, density: Floats) -> tuple[Floats, Floats]:
        """The median of log ε of new runs of a measured configuration at some densities, and its variance."""
        own, scatter, x = self._seen(index), self.scatter, np.log(density)
        law, curve, expected = self._at_measured(index, density), own.curve, own.expected
        slope = law.average.unpruned_slope
        coupled = scatter.coupled(x, slope)
        cross = scatter.alone(x, curve.log_density) + law.doubt.T @ own.law.doubt
        cross += coupled @ expected.covariance @ own.coupled.T
        before = scatter.variance_alone(x) + (law.doubt**2).sum(axis=0)
        before += np.einsum("ij,jk,ik->i", coupled, expected.covariance, coupled)
        told = (linalg.solve_triangular(own.root, cross.T, lower=True) ** 2).sum(axis=0)
        median = law.average.log_error + slope * curve.unpruned_shift + coupled @ expected.mean
        return median + cross @ own.surprise, np.maximum(before - told, 0.0) + scatter.noise_of(
            curve.log_weights
        ) ** 2

    def _seen(self, index: int) -> _Seen:
        """A measured configuration with what its neighbours predict."""
        if index not in self._all_seen:
            (curve, law), expected, scatter = self._measured(index), self._expected(index), self.scatter
            x, coupled = curve.log_density, scatter.coupled(curve.log_density, curve.slope)
            known = scatter.alone(x, x) + curve.known
            known += scatter.of_chains(x, curve.replicates, curve.log_weights)
            known += coupled @ expected.covariance @ coupled.T
            with _consistent():
                root = np.asarray(np.linalg.cholesky(known + TINY * np.eye(len(x))), dtype=float)
                surprise = linalg.cho_solve((root, True), curve.missed - coupled @ expected.mean)
            self._all_seen[index] = _Seen(
                curve=curve, law=law, expected=expected, coupled=coupled, root=root, surprise=surprise
            )
        return self._all_seen[index]

    @cached_property
    def scatter(self) -> Scatter:
        """Noise and misfit of this fit's data."""
        floor = self.fit.noise_floor
        with _consistent():
            return inferred(
                self._informing,
                None if floor is None else floor.replicate,
                UNKNOWN if self.fit.dense is None else None,
            )

    @cached_property
    def _sample(self) -> Integers:
        """The configurations that inform others: all, or a random sample of very many.

        Every k-th one of a grid could leave out whole sizes.
        """
        order = np.random.default_rng(0).permutation(len(self.fit.configurations))
        return np.sort(order[:MOST_CURVES])

    @cached_property
    def _informing(self) -> list[Curve]:
        """The curves of these configurations."""
        return [self._measured(int(index))[0] for index in self._sample]

    @cached_property
    def _others(self) -> Others:
        """The numbers of all configurations, given these curves."""
        return Neighbours(self._informing, dense=self.fit.dense is not None).seen(self.scatter)

    def _expected(self, index: int) -> Expected:
        """What to expect of a measured configuration without its own curve."""
        member = int(np.searchsorted(self._sample, index))
        if member < len(self._sample) and self._sample[member] == index:
            return self._others.of(member)
        return self._others.at(self._measured(index)[0].place[None])[0]

    def _measured(self, index: int) -> tuple[Curve, _Law]:
        """The rows of a configuration, including its unpruned network, and the law's estimates."""
        if index not in self._known:
            c = self.fit.configurations[index]
            rows = np.array(c.curve, dtype=float).reshape(-1, 3)
            if not (rows[:, 0] == 1).any():
                rows = np.vstack([(1.0, c.unpruned_error, c.replicates), rows])
            density, error, replicates = _levels(rows).T
            law = self._at_measured(index, density)
            slope, shift = law.average.unpruned_slope, 0.0
            if self.fit.dense is not None:
                asked = (c.weights, max(c.num_examples, 1.0), c.depth)
                expected = self.fit.dense.predict(*(np.array([value]) for value in asked))
                shift = float(np.log(expected[0] / c.unpruned_error))
            curve = Curve(
                log_density=np.log(density),
                deviation=np.log(error) - law.average.log_error,
                replicates=np.maximum(replicates, 1.0),
                slope=slope,
                known=law.doubt.T @ law.doubt,
                unpruned_shift=shift,
                log_weights=float(np.log(c.weights)),
                place=_doublings(np.array([[getattr(c, name) for name in AXES]], dtype=float))[0],
            )
            self._known[index] = curve, law
        return self._known[index]

    def _at_measured(self, index: int, density: Floats) -> _Law:
        c, count = self.fit.configurations[index], len(density)
        inputs = {"density": density, **{name: np.full(count, float(getattr(c, name))) for name in AXES}}
        unpruned, weights = np.full(count, c.unpruned_error), np.full(count, float(c.weights))
        return self._law(query(self.fit, inputs, unpruned, weights), self.fit.spread.draws[::DRAW_STEP])

    def _law(self, points: Points, draws: Floats) -> _Law:
        form, mean = self.fit.form(), average(self.fit, points)
        drawn = form.log_error(draws, points)
        drawn -= form.log_error(self.fit.spread.centre[None], points)
        return _Law(average=mean, doubt=np.concatenate([drawn / np.sqrt(len(drawn)), mean.doubt]))

    def _undetermined(self, points: Points) -> Floats:
        """The smallest spread that covers the predictions of all parameters that fit about as well."""
        fit, form = self.fit, self.fit.form()
        apart = np.abs(
            form.log_error(fit.spread.possible, points) - form.log_error(fit.theta()[None], points)
        )
        reach = apart.max(axis=0) / special.stdtrit(fit.spread.degrees, (1 + COVERAGE) / 2)
        return np.asarray(np.hypot(reach, self.noise(points)))


@contextmanager
def _consistent() -> Iterator[None]:
    """Refuse an edited law whose parameters make a covariance singular."""
    try:
        yield
    except ValueError as problem:
        raise PrunecastError(
            "the parameters of this law contradict the curves that it was fitted to; fit the table again"
        ) from problem


def _blocks(rows: Integers) -> list[Integers]:
    """Rows in parts that are predicted at a time."""
    return np.array_split(rows, range(BLOCK, len(rows), BLOCK)) if len(rows) else []


def _by_configuration(own: Integers) -> Iterator[tuple[int, Integers]]:
    """Each measured configuration with its rows, in their order."""
    order = np.argsort(own, kind="stable")
    known = order[np.searchsorted(own[order], 0) :]
    indices, starts = np.unique(own[known], return_index=True)
    return zip(indices.tolist(), np.split(known, starts[1:]), strict=True) if len(known) else iter(())


def _levels(rows: Floats) -> Floats:
    """Density, mean error and replicates of each density, from the highest down; some of very many densities.

    A fit to every replicate's own row has several rows of one density.
    """
    rows = rows[np.argsort(-rows[:, 0], kind="stable")]
    starts = np.flatnonzero(np.diff(np.log(rows[:, 0]), prepend=np.inf) < -SAME_DENSITY)
    if len(starts) < len(rows):
        replicates = np.add.reduceat(rows[:, 2], starts)
        means = np.add.reduceat(rows[:, :2] * rows[:, 2:], starts) / replicates[:, None]
        rows = np.column_stack([means, replicates])
    if len(rows) > MOST_ROWS:
        rows = rows[np.round(np.linspace(0, len(rows) - 1, MOST_ROWS)).astype(np.int64)]
    return rows


@lru_cache(maxsize=8)
def predictive(fit: FittedLaw) -> Predictive:
    """The predictive distribution of a fit, cached."""
    return Predictive(fit)


def _doublings(places: Floats) -> Floats:
    """Depths, widths and numbers of examples in doublings; an unknown number of examples is 0."""
    return np.asarray(np.log2(np.maximum(places, [TINY, TINY, 1.0])))

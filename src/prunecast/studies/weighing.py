"""What could be trained next, and what each would teach: new chains, more levels, further replicates."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prunecast.choice.counts import Counter, counter
from prunecast.choice.options import training_unit
from prunecast.choice.sizes import Sizes, sizes
from prunecast.laws import DenseLaw, Fit
from prunecast.laws.points import Floats, Integers, Points
from prunecast.laws.words import SYMBOLS
from prunecast.studies.design import regular
from prunecast.studies.information import KEPT_A_LEVEL, Sums, level_sums, measured_sums
from prunecast.studies.refits import Subject

MOST_LEVELS, MOST_NEW = 40, 120
NEW_LEVELS, MORE_LEVELS = (5, 10, 15, 20, 25, 30, 35, 40), (2, 4, 6, 8, 10, 15)
PLATEAU = 0.97
"""A chain is not followed beyond this share of ε↑, where nothing is left to learn."""
USUAL_BETA, ROUGHLY = 0.45, 0.2


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One thing to train and what it teaches."""

    kind: str
    """new chain, more levels, or another replicate"""
    depth: float
    width: float
    num_examples: float
    last_level: int
    """of a fifth each; that of a replicate is as its own chain counts"""
    last_density: float
    trainings: int
    cost: float
    """in trainings of the costliest measured network"""
    reduction: float
    """expected share taken off the variance of predictions that the parameters cause"""
    shrinks: dict[str, float]
    """expected share taken off the standard deviation of each parameter"""

    @property
    def per_cost(self) -> float:
        """Reduction per unit of training."""
        return self.reduction / self.cost


def _lowest(points: Points) -> Floats:
    """The lowest density of each configuration."""
    return np.asarray(np.minimum.reduceat(points.density, points.starts))


def rough_dense(fit: Fit, examples: float) -> DenseLaw:
    """A guess at unpruned errors where too few were measured for a law: ε̃ = b·M^−β with a usual β."""
    known = [c for c in fit.configurations if c.num_examples == examples]
    ceiling = max([fit.parameters["high_error"], *(1.01 * c.unpruned_error for c in known)])
    share = np.array([c.unpruned_error / ceiling for c in known])
    scale = share / np.sqrt(1 - share**2) * np.array([c.weights for c in known]) ** USUAL_BETA
    values = {"eta": 1.0, "ceiling": ceiling, "a": 0.0, "alpha": 1.0, "beta": USUAL_BETA, "floor": 0.0}
    values["b"] = float(np.exp(np.log(scale).mean()))
    return DenseLaw(parameters=values, deviation=ROUGHLY, configurations=len(known), free=1)


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """What a table tells of its law so far, and what each further chain would add."""

    fit: Fit
    one: Subject
    counter: Counter
    sums: Sums
    information: Floats
    average: Floats
    """mean of jjᵀ over the measured networks: tr(average · covariance) is the variance of predictions"""

    @classmethod
    def of(cls, fitted: Fit, one: Subject) -> "Weighing":
        """Sum up what the table tells."""
        sums = measured_sums(one.form, one.theta, one.points)
        slopes = one.form.stack(one.theta[None], one.points)[0, :-1]
        total = regular(sums.information.sum(axis=0))
        return cls(
            fit=fitted,
            one=one,
            counter=counter(fitted),
            sums=sums,
            information=total,
            average=slopes @ slopes.T / slopes.shape[1],
        )

    def suggestions(self) -> Iterator[Suggestion]:
        """Everything that could be trained."""
        yield from self._more_levels()
        yield from self._replicates()
        yield from self._new_chains()

    def _measured_sizes(self) -> Sizes:
        points = self.one.points
        nothing, no = np.zeros(points.configurations), np.zeros(points.configurations, dtype=bool)
        return Sizes(
            depth=points.depth,
            width=points.width,
            num_examples=points.num_examples,
            counts=self.counter(points.depth, points.width),
            unpruned=points.unpruned,
            told=points.unpruned,
            doubt=nothing,
            measured=~no,
            outside=no,
        )

    def _points(self, chains: Sizes) -> Points:
        """Chains as configurations in the fit's own units; rows are filled in by level."""
        made = chains.points(self.fit, np.ones(len(chains)))
        own = self.one.points
        return replace(made, reference_depth=own.reference_depth, reference_examples=own.reference_examples)

    def _last_useful(self, errors: Floats) -> Integers:
        """The level at which each chain comes to its high plateau."""
        flat = errors >= PLATEAU * self.fit.parameters["high_error"]
        ends = np.where(flat.any(axis=1), flat.argmax(axis=1) + 1, errors.shape[1])
        return np.asarray(ends, dtype=np.int64)

    def _new_chains(self) -> Iterator[Suggestion]:
        for examples in sorted({c.num_examples for c in self.fit.configurations}):
            law = self.fit if self.fit.dense else replace(self.fit, dense=rough_dense(self.fit, examples))
            new = sizes(law, self.counter, examples, "around" if self.fit.dense is None else "within")
            new = new[~new.measured]
            new = new[np.arange(0, len(new), 1 + len(new) // MOST_NEW)]
            if not len(new):
                continue
            points, unit = self._points(new), training_unit(self.counter, new)
            sums, errors = level_sums(self.one.form, self.one.theta, points, MOST_LEVELS)
            ends = self._last_useful(errors)
            for levels in NEW_LEVELS:
                own = sums[:, levels - 1]
                added = Sums(square=own.square, cross=own.cross, curvature=own.curvature + 1).information
                useful = np.flatnonzero(levels <= ends)
                costs = (levels + 1) * unit
                yield from self._judged(
                    "new chain", new, useful, added, levels, KEPT_A_LEVEL**levels, levels + 1, costs
                )

    def _more_levels(self) -> Iterator[Suggestion]:
        measured, points = self._measured_sizes(), self.one.points
        unit = training_unit(self.counter, measured)
        last = np.round(np.log(_lowest(points)) / np.log(KEPT_A_LEVEL)).astype(np.int64)
        known, most = self._points(measured), int(last.max()) + max(MORE_LEVELS)
        sums, errors = level_sums(self.one.form, self.one.theta, known, most)
        ends, each = self._last_useful(errors), np.arange(len(last))
        before = sums[each, np.maximum(last - 1, 0)].where(last > 0)
        for more in MORE_LEVELS:
            after = sums[each, last + more - 1]
            added = (self.sums + after - before).information - self.sums.information
            useful = np.flatnonzero(last + more <= ends)
            density = KEPT_A_LEVEL ** (last + more).astype(float)
            yield from self._judged(
                "more levels", measured, useful, added, last + more, density, more, more * unit
            )

    def _replicates(self) -> Iterator[Suggestion]:
        measured, points = self._measured_sizes(), self.one.points
        unit = training_unit(self.counter, measured)
        rows = np.bincount(points.configuration, minlength=points.configurations)
        share = 1 / np.maximum(points.unpruned_replicates, 1.0)
        again = Sums(
            square=self.sums.square * (1 + share)[:, None, None],
            cross=self.sums.cross * (1 + share)[:, None],
            curvature=self.sums.curvature * (1 + share),
        )
        added = again.information - self.sums.information
        levels = np.array([points.level[points.configuration == i].max() for i in range(len(rows))])
        every = np.arange(len(rows))
        yield from self._judged(
            "another replicate",
            measured,
            every,
            added,
            levels,
            _lowest(points),
            levels + 1,
            (levels + 1) * unit,
        )

    def _judged(
        self,
        kind: str,
        chains: Sizes,
        which: NDArray[np.integer[Any]],
        added: Floats,
        last: Integers | int,
        density: Floats | float,
        trainings: Integers | int,
        cost: Floats,
    ) -> Iterator[Suggestion]:
        now = np.linalg.inv(self.information)
        then = np.linalg.inv(self.information + added)
        variance = np.einsum("ij,nji->n", self.average, then) / np.einsum("ij,ji->", self.average, now)
        shrink = 1 - np.sqrt(np.diagonal(then, axis1=1, axis2=2) / np.diag(now))
        names = [SYMBOLS[name] for name in self.fit.parameters]
        levels, ends, counts = (
            np.broadcast_to(np.asarray(value), len(chains)) for value in (last, density, trainings)
        )
        for i in which:
            yield Suggestion(
                kind=kind,
                depth=float(chains.depth[i]),
                width=float(chains.width[i]),
                num_examples=float(chains.num_examples[i]),
                last_level=int(levels[i]),
                last_density=float(ends[i]),
                trainings=int(counts[i]),
                cost=float(cost[i]),
                reduction=float(1 - variance[i]),
                shrinks=dict(zip(names, shrink[i].tolist(), strict=True)),
            )

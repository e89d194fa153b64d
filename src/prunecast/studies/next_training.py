"""What to train next to learn the most about the law per unit of training, and whether it still matters.

New chains, more levels and more replicates are weighed by the information that they add (`design`). Whether more data
would change which network to choose is the expected regret of choosing by today's estimate.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from prunecast.catalog import FAMILIES
from prunecast.choice import (
    Candidates,
    Counter,
    Inversion,
    Measure,
    Naming,
    SizeRange,
    candidates,
    check_target,
    choose,
    counter,
    examples_for,
    naming,
    size_line,
)
from prunecast.errors import PrunecastError
from prunecast.findings import Finding
from prunecast.laws import (
    AUTO,
    DenseLaw,
    Fit,
    Floats,
    Integers,
    Points,
    evaluate,
    fit,
    natural,
    selectable_laws,
)
from prunecast.laws import findings as law_findings
from prunecast.studies.design import level_information, measured_information, project_unpruned, regular
from prunecast.studies.findings import (
    AxisToTrain,
    GainsAssumeLaw,
    OnlyMeasuredSizes,
    OtherLawsUnknown,
    RegretUndetermined,
    TargetNotReached,
    UnprunedErrorsGuessed,
)
from prunecast.studies.refits import FullFit, full_fit
from prunecast.table import Table

LEAST_GAIN = 0.05
"""Suggestions take at least this share off the variance of predictions, where any does."""
SETTLED = 0.02
"""Below this expected regret more data would not change which network to choose."""
MOST_OF_A_KIND, APART = 2, 1.5
"""Suggestions of a kind are few, and differ by depth or examples, or by half in width."""
NEW_DENSITIES = (0.33, 0.11, 0.035, 0.012, 0.0038, 0.0012, 0.0004, 0.00013)
"""Where new chains may end, to the nearest level."""
FURTHER = (0.64, 0.41, 0.262, 0.168, 0.107, 0.035)
"""Shares of the weights left after more levels of a measured chain, to the nearest level."""
MOST_NEW = 120
PLATEAU = 0.97
"""A chain is not followed beyond this share of ε↑, where nothing is left to learn."""
USUAL_BETA, ROUGH_DEVIATION = 0.45, 0.2
"""Exponent and deviation of the guess at unpruned errors where there is no law of them."""
DRAW_STEP = 4
"""Every so many of the law's draws are used for the uncertainty of predictions."""
REGRET_DRAWS, REGRET_ERRORS, REGRET_CANDIDATES = 60, 12, 80
WORST_REGRET = 1.0
"""The regret of a network that turns out not to reach the error at all."""


class SuggestionKind(StrEnum):
    """What to train."""

    NEW_CHAIN = "new chain"
    MORE_LEVELS = "more levels"
    REPLICATE = "another replicate"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One thing to train and what it teaches."""

    kind: SuggestionKind
    depth: float
    width: float
    num_examples: float
    last_level: int
    """counted in steps of the table's `kept_per_level`; that of a replicate as its own chain counts"""
    last_density: float
    trainings: int
    cost: float
    """in training runs of the costliest measured network"""
    reduction: float
    """expected share taken off the variance of predictions that the parameters cause"""
    shrinks: dict[str, float]
    """expected share taken off the standard deviation of each parameter, by its symbol"""

    @property
    def per_cost(self) -> float:
        """Reduction per unit of training."""
        return self.reduction / self.cost


@dataclass(frozen=True, kw_only=True)
class NextTraining:
    """What to measure next, best value first."""

    law: str
    table: str
    suggestions: tuple[Suggestion, ...]
    kept_per_level: float
    """share of the weights that each suggested level keeps"""
    uncertainty: float
    """standard deviation of log ε̂ over the measured networks that the parameters cause"""
    run: float
    """standard deviation of log ε of a single training run around the law, which no further data reduce"""
    regret: float
    """expected excess of parameters from choosing by today's estimate, if the law is right"""
    other_law: str | None
    """the other law under which that choice is worst; None where no other law could be fitted"""
    other_law_regret: float
    """the excess of parameters if that other law is right; NaN where no other law could be fitted"""
    one_size: bool
    """whether neither depth nor width varied, so that there is nothing to choose among"""
    settled: bool
    """whether more data would no longer change which network to choose"""
    doubt: Finding | None
    """why little regret does not settle the choice; None where it does, or where the regret is not little"""
    findings: tuple[Finding, ...]
    naming: Naming
    """how the table's networks are named"""


def next_training(table: Table, *, law: str = AUTO, target_error: float | None = None) -> NextTraining:
    """Weigh new chains, more levels and more replicates by what they teach per training run."""
    check_target(target_error, table.metric)
    fitted = fit(table, law=law)
    law = fitted.family_law
    full = full_fit(table, law)
    weighing = Weighing.of(fitted, full)
    regret = expected_regret(fitted, target_error)
    others = {
        other: _regret_by(table, other, fitted, target_error) for other in selectable_laws() if other != law
    }
    known = {other: value for other, value in others.items() if value is not None}
    worst = max(known, key=lambda other: known[other]) if known else None
    worst_regret = float("nan") if worst is None else known[worst]
    missed = target_error is not None and not choose(fitted, target_error=target_error).met
    unreached = [TargetNotReached(target_error=target_error)] if target_error is not None and missed else []
    unknown = tuple(other for other in others if other not in known)
    one_size = not any(_varies(fitted, axis) for axis in ("depth", "width"))
    little = float(np.fmax(regret, worst_regret)) < SETTLED
    doubt = next(iter([*unreached, *_doubts(fitted, unknown)]), None) if little else None
    named = naming(fitted, weighing.counter)
    return NextTraining(
        law=law,
        table=table.source,
        suggestions=tuple(_best_value(list(weighing.suggestions()))),
        kept_per_level=fitted.kept_per_level,
        uncertainty=_uncertainty(fitted, full.points),
        run=fitted.spread.run,
        regret=regret,
        other_law=worst,
        other_law_regret=worst_regret,
        one_size=one_size,
        settled=little and doubt is None and not one_size,
        doubt=doubt,
        findings=(*unreached, *_findings(fitted, named)),
        naming=named,
    )


def _regret_by(table: Table, other: str, fitted: Fit, target_error: float | None) -> float | None:
    """The regret of choosing by a fit if another law is right; None where the rows cannot determine that law."""
    try:
        truth = fit(table, law=other)
    except PrunecastError:
        return None
    return expected_regret(fitted, target_error, other=truth)


def _doubts(fitted: Fit, unknown: tuple[str, ...]) -> Iterator[Finding]:
    """What could still change a choice that costs little by today's estimate."""
    if fitted.undetermined:
        yield RegretUndetermined(symbols=tuple(map(fitted.symbol, fitted.undetermined)))
    if fitted.dense is None:
        yield OnlyMeasuredSizes()
    if unknown:
        yield OtherLawsUnknown(laws=unknown)


def _best_value(found: list[Suggestion]) -> list[Suggestion]:
    """The best value, at most two of a kind; where nothing teaches much, what teaches most."""
    good = [own for own in found if own.reduction >= LEAST_GAIN]
    if not good:
        return sorted(found, key=lambda own: -own.reduction)[:1]
    kept: list[Suggestion] = []
    for own in sorted(good, key=lambda own: -own.per_cost):
        of_kind = [other for other in kept if other.kind == own.kind]
        if len(of_kind) < MOST_OF_A_KIND and not any(_alike(own, other) for other in of_kind):
            kept.append(own)
    return kept


def _alike(one: Suggestion, other: Suggestion) -> bool:
    """Whether two suggestions are about nearly the same network."""
    near = abs(np.log(one.width / other.width)) < np.log(APART)
    return bool(near and (one.depth, one.num_examples) == (other.depth, other.num_examples))


def _uncertainty(fitted: Fit, points: Points) -> float:
    plain = replace(points, reference_depth=1.0)
    centre, _ = evaluate(fitted, fitted.spread.centre[None], plain)
    draws, _ = evaluate(fitted, fitted.spread.draws[::DRAW_STEP], plain)
    return float(np.sqrt(((draws - centre) ** 2).mean()))


def _findings(fitted: Fit, named: Naming) -> Iterator[Finding]:
    """What the weighing leaves out."""
    first = fitted.configurations[0]
    for axis, example in (("depth", _other_depth(fitted)), ("width", first.width / 4)):
        if not _varies(fitted, axis) and (axis in named.axes or axis == "width"):
            yield AxisToTrain(axis=axis, example=example)
    if fitted.dense is None and fitted.axes:
        yield UnprunedErrorsGuessed()
    about_parameters = law_findings.NoRise | law_findings.Undetermined
    yield from (own for own in fitted.findings if isinstance(own, about_parameters))
    yield GainsAssumeLaw()


def _varies(fitted: Fit, axis: str) -> bool:
    return len({getattr(c, axis) for c in fitted.configurations}) > 1


def _other_depth(fitted: Fit) -> float:
    """The next shallower depth of a built-in family, else half the depth."""
    own = fitted.configurations[0].depth
    family = FAMILIES.get(fitted.origin.family)
    if family is None:
        return own / 2
    shallower = [depth for depth in family.depths if depth < own]
    return shallower[-1] if shallower else next(depth for depth in family.depths if depth > own)


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """What a table says about its law so far, and what each further chain would add."""

    fit: Fit
    full: FullFit
    counter: Counter
    measured: Floats
    """the information of each configuration, ε_np included"""
    information: Floats
    """that of the whole table about the parameters"""
    average: Floats
    """mean of jjᵀ over the measured networks: tr(average · covariance) is the variance of predictions"""

    @classmethod
    def of(cls, fitted: Fit, full: FullFit) -> "Weighing":
        """Sum up what the table says."""
        measured = measured_information(full)
        slopes = full.form.stack(full.theta[None], full.points)[0, :-1]
        return cls(
            fit=fitted,
            full=full,
            counter=counter(fitted),
            measured=measured,
            information=regular(project_unpruned(measured).sum(axis=0)),
            average=slopes @ slopes.T / slopes.shape[1],
        )

    def suggestions(self) -> Iterator[Suggestion]:
        """Everything that could be trained."""
        yield from self._more_levels()
        yield from self._replicates()
        yield from self._new_chains()

    def _new_chains(self) -> Iterator[Suggestion]:
        kept, ends = self.fit.kept_per_level, self._levels(NEW_DENSITIES)
        for num_examples in sorted({c.num_examples for c in self.fit.configurations}):
            dense = self.fit.dense or _rough_dense(self.fit, num_examples)
            reach = SizeRange.AROUND if self.fit.dense is None else SizeRange.WITHIN
            new = candidates(replace(self.fit, dense=dense), self.counter, num_examples, reach)
            new = new[~new.measured]
            new = new[np.arange(0, len(new), 1 + len(new) // MOST_NEW)]
            if not len(new):
                continue
            by_level, errors = level_information(self.full, self._points(new), max(ends), kept)
            by_level[..., -1, -1] += 1
            for levels in ends:
                last = np.full(len(new), levels)
                useful = np.flatnonzero(last <= self._last_useful(errors))
                added = project_unpruned(by_level[:, levels - 1])
                kind = SuggestionKind.NEW_CHAIN
                yield from self._judged(kind, new, useful, added, last, kept**last, last + 1)

    def _more_levels(self) -> Iterator[Suggestion]:
        chains, kept, steps = self._measured_sizes(), self.fit.kept_per_level, self._levels(FURTHER)
        now = np.round(np.log(_lowest(self.full.points)) / np.log(kept)).astype(np.int64)
        most = int(now.max()) + max(steps)
        by_level, errors = level_information(self.full, self._points(chains), most, kept)
        each = np.arange(len(now))
        before = np.where((now > 0)[:, None, None], by_level[each, np.maximum(now - 1, 0)], 0.0)
        for more in steps:
            last = now + more
            useful = np.flatnonzero(last <= self._last_useful(errors))
            added = self._gained(self.measured + by_level[each, last - 1] - before)
            runs, kind = np.full(len(last), more), SuggestionKind.MORE_LEVELS
            yield from self._judged(kind, chains, useful, added, last, kept ** last.astype(float), runs)

    def _replicates(self) -> Iterator[Suggestion]:
        chains, points = self._measured_sizes(), self.full.points
        share = 1 / np.maximum(points.unpruned_replicates, 1.0)
        added = self._gained(self.measured * (1 + share)[:, None, None])
        last, every = np.maximum.reduceat(points.level, points.starts), np.arange(len(chains))
        kind = SuggestionKind.REPLICATE
        yield from self._judged(kind, chains, every, added, last, _lowest(points), last + 1)

    def _gained(self, then: Floats) -> Floats:
        """What the measured configurations gain if their information becomes this."""
        return project_unpruned(then) - project_unpruned(self.measured)

    def _levels(self, shares: Sequence[float]) -> list[int]:
        """The numbers of levels that come nearest to keeping these shares of the weights."""
        return sorted(
            {max(1, round(math.log(share) / math.log(self.fit.kept_per_level))) for share in shares}
        )

    def _measured_sizes(self) -> Candidates:
        return Candidates.of_points(self.counter, self.full.points)

    def _points(self, chains: Candidates) -> Points:
        """Chains as configurations in the fit's own units; rows are filled in by level."""
        made, own = chains.points(self.fit, np.ones(len(chains))), self.full.points
        return replace(made, reference_depth=own.reference_depth, reference_examples=own.reference_examples)

    def _last_useful(self, errors: Floats) -> Integers:
        """The level at which each chain reaches its high plateau."""
        flat = errors >= PLATEAU * self.fit.high_error
        ends = np.where(flat.any(axis=1), flat.argmax(axis=1) + 1, errors.shape[1])
        return np.asarray(ends, dtype=np.int64)

    def _judged(
        self,
        kind: SuggestionKind,
        chains: Candidates,
        which: Integers,
        added: Floats,
        last: Integers,
        density: Floats,
        trainings: Integers,
    ) -> Iterator[Suggestion]:
        """Those of some chains that are useful, with what their information adds to that of the table."""
        unit = self.counter.cost_per_run(chains.counts, chains.num_examples)
        now = np.linalg.inv(self.information)
        then = np.linalg.inv(self.information + added)
        variance = np.einsum("ij,nji->n", self.average, then) / np.einsum("ij,ji->", self.average, now)
        shrink = 1 - np.sqrt(np.diagonal(then, axis1=1, axis2=2) / np.diag(now))
        symbols = [self.fit.symbol(name) for name in self.fit.parameters]
        for i in which:
            yield Suggestion(
                kind=kind,
                depth=float(chains.depth[i]),
                width=float(chains.width[i]),
                num_examples=float(chains.num_examples[i]),
                last_level=int(last[i]),
                last_density=float(density[i]),
                trainings=int(trainings[i]),
                cost=float(trainings[i] * unit[i]),
                reduction=float(1 - variance[i]),
                shrinks=dict(zip(symbols, shrink[i].tolist(), strict=True)),
            )


def _lowest(points: Points) -> Floats:
    """The lowest density of each configuration."""
    return np.asarray(np.minimum.reduceat(points.density, points.starts))


def _rough_dense(fit: Fit, num_examples: float) -> DenseLaw:
    """A guess at unpruned errors where too few were measured for a law: ε̃ = b·M^−β with a usual β."""
    known = [c for c in fit.configurations if c.num_examples == num_examples]
    ceiling = max([fit.high_error, *(1.01 * c.unpruned_error for c in known)])
    share = np.array([c.unpruned_error / ceiling for c in known])
    scale = share / np.sqrt(1 - share**2) * np.array([c.weights for c in known]) ** USUAL_BETA
    values = {"eta": 1.0, "ceiling": ceiling, "a": 0.0, "alpha": 1.0, "beta": USUAL_BETA, "floor": 0.0}
    values["b"] = float(np.exp(np.log(scale).mean()))
    return DenseLaw(parameters=values, deviation=ROUGH_DEVIATION, configurations=len(known), free=1)


def expected_regret(fit: Fit, target_error: float | None = None, *, other: Fit | None = None) -> float:
    """The mean excess of parameters over the best network, if the truth is one of the law's draws, or another law.

    The network chosen by the estimate is pruned until its error is at the target, whatever density that takes; only the
    choice of depth and width can be wrong. Without a target the mean is over errors between the plateaus.
    """
    networks = candidates(fit, counter(fit), examples_for(fit, None), SizeRange.WITHIN).as_measured()
    networks = networks[np.arange(0, len(networks), 1 + len(networks) // REGRET_CANDIDATES)]
    lowest = float(np.median(networks.unpruned_error))
    highest = max(0.7 * fit.high_error, lowest)
    spread = np.geomspace(networks.unpruned_error.min() * 1.1, highest, REGRET_ERRORS)
    targets = np.log(spread if target_error is None else np.array([target_error]))
    offset, slope = size_line(Measure.STORED, networks)

    def needed(law: Fit) -> Floats:
        density = Inversion(fit=law, networks=networks).approximate(targets)
        return np.where(density <= 1, offset + slope * np.minimum(density, 1.0), np.inf)

    today = needed(fit)
    chosen, possible = today.argmin(axis=1), np.isfinite(today.min(axis=1))
    if not possible.any():
        return 0.0
    draws = fit.spread.draws[:: max(1, len(fit.spread.draws) // REGRET_DRAWS)]
    truths = [_with_draw(fit, draw) for draw in draws] if other is None else [other]
    excess = [_excess(needed(truth), chosen)[possible] for truth in truths]
    return float(np.mean(excess))


def _with_draw(fit: Fit, draw: Floats) -> Fit:
    values = natural(fit.form(), draw)
    return replace(fit, parameters=dict(zip(fit.parameters, values.tolist(), strict=True)))


def _excess(sizes: Floats, chosen: Integers) -> Floats:
    own, best = sizes[np.arange(len(sizes)), chosen], sizes.min(axis=1)
    reached = np.isfinite(own) & np.isfinite(best)
    ratio = np.where(reached, own, 1.0) / np.where(np.isfinite(best), best, 1.0) - 1
    capped = np.minimum(ratio, WORST_REGRET)
    return np.asarray(np.where(reached, capped, np.where(np.isfinite(best), WORST_REGRET, 0.0)))

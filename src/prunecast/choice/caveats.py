"""The findings of an answer: what to know about it besides its numbers."""

from collections.abc import Iterator

import numpy as np

from prunecast.choice import findings
from prunecast.choice.costs import flat, read_off
from prunecast.choice.counts import Counter, removes_channels
from prunecast.choice.latency import latency_predictor
from prunecast.choice.options import Network, Options
from prunecast.choice.question import Measure, SizeRange, all_at_chance, pruned_much_better
from prunecast.choice.search import Search
from prunecast.findings import Finding
from prunecast.laws import (
    AXES,
    DEFAULT_LAW,
    SLACK,
    Fit,
    Floats,
    below,
    gaps,
    get_law,
    measured_sizes,
    never_varied,
    selectable_laws,
)
from prunecast.laws import findings as law_findings
from prunecast.metric import Metric


def caveats(
    search: Search, options: Options, best: Network, met: bool, beyond: Network | None
) -> Iterator[Finding]:
    """All findings of an answer, in the order in which they are shown."""
    fit = search.fit
    if not met:
        yield _out_of_reach(search)
        if beyond is not None:
            yield network_beyond(search, beyond)
    else:
        yield from _measured(search, options, best)
    if not search.verdict.usable:
        yield from (one for one in fit.findings if isinstance(one, law_findings.CurvesTooShort))
    if all_at_chance(fit) and pruned_much_better(fit):
        yield findings.TrainedTooBriefly()
    yield from _outside(search, best)
    yield from _undetermined(fit, best)
    yield from _law(fit)
    if best.unpruned_source == "predicted" and fit.dense is not None:
        yield findings.UnprunedErrorPredicted(
            unpruned_error=best.unpruned_error, deviation=fit.dense.deviation
        )
    yield from never_varied(fit, {name: [getattr(best, name)] for name in AXES})
    if fit.dense is None:
        yield findings.NoDenseLaw()
    if removes_channels(fit):
        yield findings.ChannelsRemoved()
    for measure in read_off(fit, search.question):
        predictor = latency_predictor(fit) if measure is Measure.LATENCY else None
        if predictor is None:
            yield findings.CostFromTable(measure=measure, flat=flat(fit, measure))
            continue
        place = (np.array([own]) for own in (best.depth, best.width, best.density))
        predicted = best.latency_interval is not None
        timed = predictor.timed_untrained and (
            not predicted or (best.depth, best.width) in predictor.model.timed
        )
        yield findings.CostFromTable(
            measure=measure,
            flat=flat(fit, measure),
            timed_sizes=predictor.sizes,
            timed_untrained=timed,
            deviation=float(predictor.deviations(*place)[0]) if predicted else predictor.timed.deviation,
            others=bool((search.candidates.own < 0).any()),
            interval=best.latency_interval,
        )
    yield from _settings(search, best)


def _out_of_reach(search: Search) -> findings.TargetOutOfReach:
    question, fit = search.question, search.fit
    assert question.target_error is not None
    floor = search.verdict.usable and not _may_dip(fit)
    return findings.TargetOutOfReach(
        target_error=question.target_error,
        confidence=question.confidence,
        budget=question.budgeted,
        law=fit.law,
        least_unpruned=float(search.candidates.expected_unpruned_error.min()) if floor else None,
    )


def _may_dip(fit: Fit) -> bool:
    """Whether the law, or one that is averaged with it, can predict errors below the unpruned error."""
    return fit.dips or any(get_law(one.law).dips for one in fit.alternatives)


def network_beyond(search: Search, beyond: Network) -> findings.NetworkBeyondMeasured:
    """A network outside the measured range, described by the axes that the table has."""
    naming = search.naming
    return findings.NetworkBeyondMeasured(
        depth=beyond.depth if "depth" in naming.axes else None,
        width=beyond.width if "width" in naming.axes else None,
        density=beyond.density,
        stored_parameters=beyond.stored_parameters if naming.largest is None else None,
        share_of_largest=None if naming.largest is None else beyond.stored_parameters / naming.largest,
    )


def _measured(search: Search, options: Options, best: Network) -> Iterator[Finding]:
    """Whether measurements recommend a network that the law alone would not.

    An unusable law predicts nothing to compare with.
    """
    if not search.verdict.usable:
        return
    question, fit, largest = search.question, search.fit, search.naming.largest
    trained, predicted = best.source == "measured", options[~options.measured]
    if question.target_error is None:
        if trained:
            yield findings.MeasuredWithinBudget()
        return
    least_error = float(np.exp(search.inversion.least_log_error))
    if best.unpruned_source == "measured" and least_error > question.target_error:
        yield findings.ImpossibleByLawButMeasured(
            law=fit.law,
            least_error=least_error,
            dips=_may_dip(fit),
            dipping_law=next((name for name in selectable_laws() if get_law(name).dips), ""),
            measured=trained and best.error <= question.target_error,
        )
    elif trained and len(predicted):
        size = float(search.size(predicted)[0])
        yield findings.MeasuredBeatsLaw(
            law=fit.law,
            minimise=question.minimise,
            predicted_size=size,
            share_of_largest=None if largest is None else size / largest,
        )


def _outside(search: Search, best: Network) -> Iterator[findings.OutsideMeasured]:
    """On which axes the answer lies outside the measured range, and how far these were measured."""
    if not best.extrapolated:
        return
    fit, question = search.fit, search.question
    ranges = tuple(_ranges(fit, best))
    pairs = tuple(_pairs(fit, best, {one.axis for one in ranges}))
    by_size = pairs or any(one.axis in ("depth", "width") for one in ranges)
    held = question.depth is not None or question.width is not None
    yield findings.OutsideMeasured(
        ranges=ranges,
        pairs=pairs,
        density=best.density if below(fit, np.array(best.density)) else None,
        lowest_density=min(c.lowest_density for c in fit.configurations),
        avoidable=bool(by_size and question.sizes is SizeRange.AROUND and not held),
    )


def _ranges(fit: Fit, best: Network) -> Iterator[findings.MeasuredRange]:
    """Each axis whose measured range does not reach the answer."""
    for axis in AXES:
        known = measured_sizes(fit)[axis]
        value, lowest, highest = getattr(best, axis), float(known.min()), float(known.max())
        if not lowest * (1 - SLACK) <= value <= highest * (1 + SLACK):
            yield findings.MeasuredRange(axis=axis, value=value, lowest=lowest, highest=highest)


def _pairs(fit: Fit, best: Network, alone: set[str]) -> Iterator[findings.MeasuredPair]:
    """Each pair of axes whose ranges reach the answer, but which were not measured that far together."""
    seen: set[tuple[str, str]] = set()
    for gap in gaps(fit, {axis: np.array([getattr(best, axis)]) for axis in AXES}):
        if gap.missed[0] and gap.axes not in seen and not alone & set(gap.axes):
            seen.add(gap.axes)
            first, second = gap.axes
            yield findings.MeasuredPair(
                axes=gap.axes,
                values=(getattr(best, first), getattr(best, second)),
                sides=gap.sides,
                reach=float(f"{gap.reach[0]:.12g}"),
            )


def _undetermined(fit: Fit, best: Network) -> Iterator[findings.ParametersUndetermined]:
    """Parameters that the answer depends on and the data do not determine.

    Between measured points of its own curve an answer depends on these points only; between the curves of other sizes
    it also depends on the parameters that make these curves differ.
    """
    away = _distances(fit, best)
    nearest, trained = fit.configurations[int(away.argmin())], bool(away.min() == 0)
    reached = nearest.lowest_density <= best.density * (1 + SLACK)
    risen = trained or nearest.highest_error >= best.expected_error
    between = reached and risen and not best.extrapolated
    across = {parameter.name for parameter in fit.form().parameters if parameter.between_sizes}
    names = tuple(name for name in fit.undetermined if not between or (name in across and not trained))
    if names:
        yield findings.ParametersUndetermined(parameters=names, symbols=tuple(map(fit.symbol, names)))


def _distances(fit: Fit, best: Network) -> Floats:
    """The distance of each measured configuration from a network, in logarithms summed over the axes."""
    sizes = measured_sizes(fit)
    return np.asarray(sum(np.abs(np.log(sizes[name] / getattr(best, name))) for name in AXES))


def _law(fit: Fit) -> Iterator[Finding]:
    """Which law answers if it is not the default one, and which laws predict better or are averaged."""
    default = fit.family_law == DEFAULT_LAW
    if not default and not fit.alternatives:
        yield findings.AnsweredByLaw(law=fit.law)
    for finding in fit.findings:
        if isinstance(finding, law_findings.LawsAveraged):
            yield finding
        if isinstance(finding, law_findings.LawPreference) and (
            not default or (finding.clear and finding.best != fit.law)
        ):
            yield finding


def _settings(search: Search, best: Network) -> Iterator[Finding]:
    fit = search.fit
    if fit.metric is Metric.VALIDATION_ERROR:
        yield findings.ValidationErrorsUsed()
    if fit.selected:
        yield findings.FittedWithoutTooLarge()
    known = sorted({c.num_examples for c in fit.configurations})
    if len(known) > 1:
        yield findings.ExamplesMeasured(num_examples=search.question.num_examples, measured=tuple(known))
        yield from _other_sizes(search, best)
    yield from _width_from_counts(search, best)
    if search.counter.finding is not None:
        yield search.counter.finding
    yield from _interpolated(search.counter, best)


def _width_from_counts(search: Search, best: Network) -> Iterator[findings.WidthFromCounts]:
    """What a width means if parameter counts are the only sizes in the table."""
    weights = np.array([c.weights for c in search.fit.configurations])
    widths, largest = measured_sizes(search.fit)["width"], float(weights.max())
    by_counts = np.allclose(widths, np.sqrt(weights / largest), rtol=1e-9, atol=0)
    if by_counts and np.ptp(widths) > 0 and search.counter.exact and "depth" not in search.fit.columns:
        counts = search.counter(np.array([best.depth]), np.array([best.width]))
        yield findings.WidthFromCounts(weights=float(counts.weights[0]), largest=largest)


def _interpolated(counter: Counter, best: Network) -> Iterator[findings.SizeInterpolated]:
    """An answer whose parameter counts are not in the table."""
    if counter.interpolated(best.depth, best.width):
        counts = counter(np.array([best.depth]), np.array([best.width]))
        yield findings.SizeInterpolated(
            weights=float(counts.weights[0]),
            never_pruned=float(counts.fixed[0]) if counter.complete else None,
        )


def _other_sizes(search: Search, best: Network) -> Iterator[findings.DensityOnlyAtOtherSizes]:
    """An answer with a lower density than any measured with its number of examples."""
    every = [(c.num_examples, c.lowest_density) for c in search.fit.configurations]
    examples, reached = np.array(every, dtype=float).T
    own = reached[np.isclose(examples, search.question.num_examples)]
    lowest = float(own.min()) if len(own) else 0.0
    if reached.min() * (1 - SLACK) <= best.density < lowest * (1 - SLACK):
        yield findings.DensityOnlyAtOtherSizes(
            num_examples=search.question.num_examples, lowest_density=lowest
        )

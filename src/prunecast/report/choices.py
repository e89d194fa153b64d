"""Sections about answers: the network to train, and the frontier of smallest networks."""

from prunecast.choice import Choice, Frontier, Measure, Naming, Network
from prunecast.laws import get_law
from prunecast.report.document import Fact, Grid, Section
from prunecast.text import capital
from prunecast.wording import (
    advice,
    amount,
    network_name,
    numbers,
    promise,
    sentences,
    unit,
    verdict_numbers,
    verdict_sentence,
)
from prunecast.wording import report as wording

COSTS = {Measure.LATENCY: "Latency, ms", Measure.BYTES: "Bytes", Measure.MULTIPLY_ADDS: "Multiply-adds"}
"""Headings of costs that may be minimised."""
LEAST_DIFFERENCE = 1.005
"""Networks whose sizes differ by less are not compared."""


def choice(chosen: Choice) -> Section:
    """The answer, its size and cost, the runners-up, and what to know about them."""
    best, metric = chosen.answer, chosen.metric
    unpruned = Fact(f"Unpruned {metric.word}", numbers.error(best.unpruned_error), best.unpruned_source)
    compared = comparison(chosen)
    return Section(
        title=advice(chosen),
        text=[promise(chosen), verdict_sentence(chosen.verdict, trained_only=chosen.trusted)],
        facts=[_kept(best, wording.density(best.density)), *_sizes(chosen), unpruned, _cost(best)],
        grids=[_runners_up(chosen)] if chosen.runners_up else [],
        notes=[*([compared] if compared else []), *sentences(chosen.findings, metric)],
    )


def facts(chosen: Choice, kept_per_level: float) -> list[Fact]:
    """Everything that an answer says about its network."""
    best, word = chosen.answer, chosen.metric.word
    name = network_name(chosen.naming, best.depth, best.width)
    unpruned = f"unpruned {word} {numbers.error(best.unpruned_error)}, {best.unpruned_source}"
    return [
        Fact("Network", name, unpruned),
        _kept(best, wording.levels(chosen, kept_per_level)),
        *_sizes(chosen),
        Fact(capital(word), error(best), wording.error_source(chosen)),
        Fact(wording.NEW_RUNS, numbers.interval(best.interval), wording.meeting_the_target(chosen)),
        Fact("Trust in the law", chosen.verdict.trust, verdict_numbers(chosen.verdict)),
        _cost(best),
    ]


def _kept(best: Network, remark: str) -> Fact:
    return Fact("Weights kept", numbers.kept_share(best.density), remark)


def _sizes(chosen: Choice) -> list[Fact]:
    best, naming, minimise = chosen.answer, chosen.naming, chosen.question.minimise
    found = [Fact("Size", amount(naming, best.stored_parameters), wording.size_remark(chosen))]
    if minimise is Measure.PAPER:
        found.append(Fact(minimise.unit, numbers.number(best.paper_size)))
    if best.multiply_adds is not None:
        found.append(
            Fact("Multiply-adds", amount(naming, best.multiply_adds), wording.products_remark(chosen))
        )
    found += [Fact("Latency", latency, remark) for latency, remark in wording.latency_facts(chosen)]
    if best.bytes is not None and minimise is Measure.BYTES:
        found.append(Fact("Bytes", numbers.count(best.bytes), "of dense tensors"))
    return found


def error(best: Network) -> str:
    """A measured error in full, a predicted one with its significant digits."""
    if best.source == "measured":
        return numbers.error(best.error)
    return numbers.estimate(best.error, best.interval)


def _cost(best: Network) -> Fact:
    return Fact("Training cost", numbers.number(best.training_cost), wording.cost_remark(best))


def comparison(chosen: Choice) -> str:
    """How much smaller the answer is than the network one would usually prune; empty if there is none."""
    matching = chosen.matching
    if matching is None or matching.times_smaller < LEAST_DIFFERENCE:
        return ""
    return wording.comparison(chosen, matching)


def _runners_up(chosen: Choice) -> Grid:
    naming = chosen.naming
    asked = costs_asked(chosen)
    rows = [
        [
            *_place(naming, one.depth, one.width),
            numbers.density(one.density),
            error(one),
            numbers.interval(one.interval),
            "" if one.probability is None else numbers.probability_cell(one.probability),
            amount(naming, one.stored_parameters),
            *(cost_cell(measure, size_of(one, measure)) for measure in asked),
            numbers.number(one.training_cost),
            one.source + (", outside" if one.extrapolated else ""),
        ]
        for one in chosen.runners_up
    ]
    size = "Stored" if naming.counted else "Size"
    header = [
        *_axes(naming),
        "Density",
        capital(chosen.metric.word),
        "95%",
        "Meets",
        size,
        *(COSTS[measure] for measure in asked),
        "Training",
        "By",
    ]
    return Grid(header=header, rows=rows, left=0, caption="Runners-up")


def costs_asked(chosen: Choice) -> list[Measure]:
    """The costs that a question is about, besides stored parameters."""
    question = chosen.question
    budget = [] if question.max_latency is None else [Measure.LATENCY]
    return [measure for measure in dict.fromkeys([*budget, question.minimise]) if measure in COSTS]


def size_of(one: Network, measure: Measure) -> float | None:
    """The size of a network in a measure; None where it is not known."""
    return {
        Measure.STORED: one.stored_parameters,
        Measure.NONZERO: one.nonzero_parameters,
        Measure.PAPER: one.paper_size,
        Measure.MULTIPLY_ADDS: one.multiply_adds,
        Measure.BYTES: one.bytes,
        Measure.LATENCY: one.latency_ms,
    }[measure]


def cost_cell(measure: Measure, cost: float | None) -> str:
    """A cost as a number, milliseconds with three digits."""
    if cost is None:
        return numbers.UNKNOWN
    return f"{cost:.3g}" if measure is Measure.LATENCY else numbers.count(cost)


def _axes(naming: Naming) -> list[str]:
    """The headings of depth and width, those that the table gives."""
    return [axis.capitalize() for axis in ("depth", "width") if axis in naming.axes]


def _place(naming: Naming, depth: float, width: float) -> list[str]:
    """The cells under these headings."""
    sizes = {"depth": depth, "width": width}
    return [numbers.size(value) for axis, value in sizes.items() if axis in naming.axes]


def frontier(line: Frontier) -> Section:
    """The smallest network for each error."""
    naming, metric = line.naming, line.metric
    rows = [
        [
            numbers.error(error),
            amount(naming, size),
            *_place(naming, depth, width),
            numbers.density(density),
            ("predicted" if predicted else "measured") + (", outside" if outside else ""),
        ]
        for error, size, depth, width, density, predicted, outside in zip(
            line.error,
            line.size,
            line.depth,
            line.width,
            line.density,
            line.predicted,
            line.extrapolated,
            strict=True,
        )
    ]
    size = capital(unit(naming, line.minimise))
    header = [capital(metric.word), size, *_axes(naming), "Density", f"Unpruned {metric.word}"]
    least = line.least_measured
    measured = [wording.least_measured(least, metric)] if least is not None and least < line.error[0] else []
    return Section(
        title=wording.frontier_title(get_law(line.law).title, metric),
        grids=[Grid(header=header, rows=rows, left=0, long=True)],
        notes=[wording.all_errors(len(rows), metric), *measured],
    )

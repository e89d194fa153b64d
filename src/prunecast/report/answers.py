"""The answers on top of the page: a choice for each of many targets, by number of training examples and measure."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prunecast.choice import (
    DEFAULT_CONFIDENCE,
    DEFAULT_SIZES,
    AboutTarget,
    Choice,
    Chooser,
    Measure,
    Network,
    Question,
    as_measure,
    as_size_range,
    ceiling,
    examples_for,
    known_measures,
    quantile,
)
from prunecast.errors import PrunecastError
from prunecast.laws import COVERAGE, Fit, verdict
from prunecast.report import choices
from prunecast.report.charts import FittedTable, Hue, answer_chart, frontier_data, size_title, view
from prunecast.report.curves import curves, family
from prunecast.report.document import Chart, Grid
from prunecast.report.vega import Row, rows
from prunecast.text import capital
from prunecast.wording import amount, network_name, numbers, sentences
from prunecast.wording import report as wording

MOST = 160
"""How many targets a page holds for the number of examples shown first."""
MOST_OF_OTHERS, FEWEST_OF_ANOTHER = 240, 40
"""Targets of all other numbers of examples together, and the fewest of each of them."""
MOST_CURVES = 60
SHOWN_ANSWERS = 14
STEPS = ((2.0, 0.02), (5.0, 0.05), (10.0, 0.1))
"""Steps of the targets' first digits: up to 2 by 0.02, up to 5 by 0.05, up to 10 by 0.1; none over 2%."""
HIGHEST = 0.9
"""Targets go up to this share of ε↑."""
TYPED = "{}"
"""A placeholder for the target that was typed."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the page is asked for; None means the largest measured number of examples."""

    target_error: float | None = None
    minimise: str = Measure.STORED
    num_examples: float | None = None
    sizes: str = DEFAULT_SIZES
    confidence: float = DEFAULT_CONFIDENCE


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A choice for one target."""

    target: float
    choice: Choice

    @property
    def network(self) -> Network:
        """The network chosen."""
        return self.choice.answer

    @property
    def shown(self) -> str:
        """The target as it is written."""
        return numbers.target(self.target, 4)

    @property
    def size(self) -> float:
        """The chosen network's size in the measure that is minimised."""
        best = self.network
        return {
            Measure.STORED: best.stored_parameters,
            Measure.NONZERO: best.nonzero_parameters,
            Measure.PAPER: best.paper_size,
            Measure.MULTIPLY_ADDS: best.multiply_adds or float("nan"),
            Measure.BYTES: best.bytes or float("nan"),
            Measure.LATENCY: best.latency_ms or float("nan"),
        }[self.choice.question.minimise]

    def data(self) -> dict[str, list[Row]]:
        """The data of the chart that follow the slider."""
        low, high = self.network.interval
        return {
            "target": rows(error=[self.target]),
            "chosen": rows(size=[self.size], error=[self.network.error], low=[low], high=[high]),
        }


@dataclass(frozen=True, kw_only=True)
class AnswerSet:
    """The answers for one number of examples and measure, what is drawn, and the same as a table."""

    num_examples: float
    minimise: Measure
    answers: Sequence[Answer]
    start: int
    """the answer shown first"""
    data: dict[str, list[Row]]
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class AnswerPanel:
    """The chart, and the answers for each number of examples, the first one shown at `shown`."""

    fit: Fit
    chart: Chart
    answers: Sequence[AnswerSet]
    """those of the measure shown first, then those of each other measure, for the same numbers of examples"""
    shown: int
    request: Request

    @property
    def measures(self) -> list[Measure]:
        """The measures, the one shown first in front."""
        return list(dict.fromkeys(own.minimise for own in self.answers))

    @property
    def examples(self) -> list[str]:
        """The numbers of examples."""
        return [numbers.count(own.num_examples) for own in _of(self.answers, self.measures[0])]

    def lookup(self) -> dict[str, Any]:
        """What selector, slider and box show: sentences and points for each number of examples and target."""
        target = self.request.target_error
        return {
            "sizes": [_lookup(own, self.fit, self.answers) for own in self.answers],
            "shown": self.shown,
            "examples": self.examples,
            "measures": [wording.measure_name(measure) for measure in self.measures],
            "asked": "" if target is None else numbers.target(target),
            "beyond": too_high(self.fit),
        }


def answer_panel(fitted: FittedTable, request: Request) -> AnswerPanel:
    """The answers for every measured number of examples and the one asked for, in each measure that is known."""
    fit, hue = fitted.fit, fitted.hue
    if hue.shape == "num_examples":
        hue = replace(hue, shape="", shapes=())
    wanted = examples_for(fit, request.num_examples)
    known = sorted({c.num_examples for c in fit.configurations}, reverse=True)
    every = known if any(np.isclose(wanted, n) for n in known) else sorted([*known, wanted], reverse=True)
    shown = int(np.argmin(np.abs(np.array(every) - wanted)))
    few = max(FEWEST_OF_ANOTHER, MOST_OF_OTHERS // max(1, len(every) - 1))
    found = [
        _answer_set(fitted, hue, request, n, MOST if i == shown else min(MOST, few))
        for i, n in enumerate(every)
    ]
    for measure in known_measures(fit):
        if measure != found[0].minimise:
            other = replace(fitted, minimise=measure), hue, replace(request, minimise=measure)
            with suppress(PrunecastError):  # a number of examples of which no network has a known cost
                found += [_answer_set(*other, n, min(MOST, few)) for n in every]
    first = found[shown]
    data = {**first.data, **first.answers[first.start].data()}
    spec = answer_chart(data, hue, _view(first, found), fit.metric)
    caption = wording.answer_caption(request.confidence, fit.metric)
    chart = Chart(name="answer", spec=spec, caption=caption)
    return AnswerPanel(fit=fit, chart=chart, answers=found, shown=shown, request=request)


def _answer_set(fitted: FittedTable, hue: Hue, request: Request, num_examples: float, most: int) -> AnswerSet:
    fit, measured = fitted.fit, fitted.rows
    found = answers(fit, replace(request, num_examples=num_examples), most)
    lines = curves(fit, family(fit, num_examples, request.sizes), request.minimise)
    used = {(one.network.depth, one.network.width) for one in found}
    others = [
        own
        for own in lines
        if not own.measured and (len(lines) <= MOST_CURVES or (own.depth, own.width) in used)
    ]
    drawn = [(one.size, one.target) for one in found if one.choice.met]
    here = measured[np.isclose(measured.num_examples, num_examples)]
    return AnswerSet(
        num_examples=num_examples,
        minimise=found[0].choice.question.minimise,
        answers=found,
        start=_start(found, request.target_error),
        data=frontier_data(here, [own for own in lines if own.measured], others, drawn, hue),
        grid=_grid(found, fit),
    )


def answers(fit: Fit, request: Request, most: int = MOST) -> list[Answer]:
    """One choice per target, from one that nothing meets up to where they end; the second is the least met."""
    question = Question(
        minimise=as_measure(request.minimise),
        confidence=request.confidence,
        num_examples=examples_for(fit, request.num_examples),
        sizes=as_size_range(request.sizes),
    )
    chooser = Chooser(fit, question)
    ends = around(promised(fit, chooser.least_error(), request.confidence))
    higher = [target for target in targets(ends[1], _highest_target(fit), most) if target > ends[1]]
    wanted = [*ends, *higher]
    return [
        Answer(target=target, choice=own) for target, own in zip(wanted, chooser.choices(wanted), strict=True)
    ]


def _highest_target(fit: Fit) -> float:
    """Where targets end: below ε↑ or chance, or where an unusable law guesses ε↑, at the largest measured error."""
    if verdict(fit).usable:
        return ceiling(fit) * HIGHEST
    largest = max(own.highest_error for own in fit.configurations)
    return max(ceiling(fit) * HIGHEST, min(largest, HIGHEST * (fit.origin.chance or largest)))


def targets(lowest: float, highest: float, most: int = MOST) -> list[float]:
    """Round targets between two errors; every second or third where there would be too many."""
    decades = range(int(np.floor(np.log10(lowest))), int(np.ceil(np.log10(highest))) + 1)
    mantissas, start = [], 1.0
    for end, step in STEPS:
        mantissas += (start + step * np.arange(round((end - start) / step))).tolist()
        start = end
    grid = [round(m * 10.0**decade, 8 - decade) for decade in decades for m in mantissas]
    inside = [float(f"{value:.6g}") for value in grid if lowest <= value <= highest]
    return inside[:: max(1, -(-len(inside) // most))]


def promised(fit: Fit, best: Network, confidence: float) -> float:
    """The error that new runs of a network keep with this probability; at one half, the expected one."""
    share = quantile(fit, confidence) / quantile(fit, (1 + COVERAGE) / 2)
    return float(best.expected_error * (best.expected_error / best.interval[0]) ** share)


def around(error: float) -> tuple[float, float]:
    """The last number of four digits that lies below an error, and the one after it."""
    unit = 10.0 ** (int(np.floor(np.log10(error))) - 3)
    above = int(np.ceil(error * (1 - 1e-6) / unit))
    return float(f"{(above - 1) * unit:.4g}"), float(f"{above * unit:.4g}")


def _start(found: Sequence[Answer], target: float | None) -> int:
    """The answer shown first: for the target asked for, else a third of the way up among those met."""
    if target is not None:
        below = [i for i, answer in enumerate(found) if answer.target <= target * (1 + 1e-9)]
        return below[-1] if below else 0
    met = [i for i, answer in enumerate(found) if answer.choice.met]
    return met[len(met) // 3] if met else 0


def _grid(found: Sequence[Answer], fit: Fit) -> Grid:
    """The answers to some of the targets."""
    step, naming = max(1, -(-len(found) // SHOWN_ANSWERS)), found[0].choice.naming
    measure = found[0].choice.question.minimise
    costs = choices.COSTS
    size = costs.get(measure, "Stored parameters") if naming.counted else "Share of the largest"
    several = len({own.num_examples for own in fit.configurations}) > 1
    which = f", {numbers.count(found[0].choice.question.num_examples)} training examples" if several else ""
    rows = [
        [
            one.shown if one.choice.met else f"{one.shown} (not met)",
            numbers.size(one.network.depth),
            numbers.size(one.network.width),
            numbers.density(one.network.density),
            amount(naming, one.size if measure in costs else one.network.stored_parameters),
            choices.error(one.network),
            numbers.interval(one.network.interval),
        ]
        for one in found[::step]
    ]
    header = ["Target", "Depth", "Width", "Density", size, capital(fit.metric.word), wording.NEW_RUNS]
    return Grid(header=header, rows=rows, left=0, caption=f"The answers as a table{which}", long=True)


def _of(every: Sequence[AnswerSet], measure: Measure) -> list[AnswerSet]:
    return [own for own in every if own.minimise is measure]


def _view(own: AnswerSet, every: Sequence[AnswerSet]) -> dict[str, Any]:
    """The axes of the chart, which are those of sizes in the same measure."""
    title = size_title(own.minimise, counted=own.answers[0].choice.naming.counted)
    return view(own.data, [other.data for other in _of(every, own.minimise)], title)


def _lookup(own: AnswerSet, fit: Fit, every: Sequence[AnswerSet]) -> dict[str, Any]:
    return {
        "examples": numbers.count(own.num_examples),
        "start": own.start,
        "least": too_low(own.answers, fit),
        "view": _view(own, every),
        "answers": [
            {
                "target": one.target,
                "shown": one.shown,
                "met": one.choice.met,
                "headline": wording.headline(one.choice),
                "facts": choices.facts(one.choice, fit.kept_per_level),
                "comparison": choices.comparison(one.choice),
                "notes": sentences(one.choice.findings, fit.metric),
                "data": one.data(),
            }
            for one in own.answers
        ],
    }


def too_low(found: Sequence[Answer], fit: Fit) -> dict[str, Any]:
    """What the page shows for every target below the lowest that is met.

    Findings about the lowest target looked up are left out: a network outside the measured range that meets it may
    miss the one typed.
    """
    lowest = found[0].choice
    best, question = lowest.answer, lowest.question
    least = around(promised(fit, best, question.confidence))[1]
    notes = sentences((own for own in lowest.findings if not isinstance(own, AboutTarget)), fit.metric)
    if question.sizes == DEFAULT_SIZES and fit.dense is not None:
        notes.insert(0, wording.ASK_FURTHER)
    network = network_name(lowest.naming, best.depth, best.width)
    headline = wording.nothing_meets(
        TYPED, numbers.target(least, 4), network, best, question.confidence, fit.metric
    )
    return {"headline": headline, "notes": notes}


def too_high(fit: Fit) -> list[dict[str, Any]]:
    """The targets from which on no network is needed, and why; the page shows the first reason that applies."""
    chance = fit.origin.chance
    found = [] if chance is None else [{"from": chance, "headline": wording.guessing_suffices(TYPED, chance)}]
    if not verdict(fit).usable:  # trained networks answer, whatever the law guesses of higher errors
        return found
    return [*found, {"from": fit.high_error, "headline": wording.any_network_suffices(TYPED, fit)}]

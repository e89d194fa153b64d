"""The answers at the top of the page: a choice for each target, number of training examples and measure."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prunecast.choice import (
    DEFAULT_SIZES,
    AboutTarget,
    Choice,
    Chooser,
    Measure,
    Network,
    Question,
    ceiling,
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
"""How many targets a page has for the number of examples shown first."""
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
class AnswerSet:
    """The answers for one number of examples and one measure, what is drawn of them, and the same as a table."""

    num_examples: float
    minimise: Measure
    choices: Sequence[Choice]
    """one for each target, in ascending order"""
    start: int
    """the choice shown first"""
    data: dict[str, list[Row]]
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class AnswerPanel:
    """The chart, and the answers for each number of examples, the first one shown at `shown`."""

    fit: Fit
    question: Question
    chart: Chart
    sets: Sequence[AnswerSet]
    """first the answers in the measure shown first, then in each other measure, for the same numbers of examples"""
    shown: int

    def lookup(self) -> dict[str, Any]:
        """What selector, slider and box show: sentences and points for each number of examples and target."""
        target, measures = self.question.target_error, list(dict.fromkeys(own.minimise for own in self.sets))
        return {
            "sizes": [_lookup(own, self.fit, self.sets) for own in self.sets],
            "shown": self.shown,
            "examples": [numbers.count(own.num_examples) for own in _of(self.sets, measures[0])],
            "measures": [wording.measure_name(measure) for measure in measures],
            "asked": "" if target is None else numbers.target(target),
            "beyond": too_high(self.fit),
        }


def answer_panel(fitted: FittedTable, question: Question) -> AnswerPanel:
    """The answers for every measured number of examples and the one asked for, in each measure that is known."""
    fit, hue, wanted = fitted.fit, fitted.hue, question.num_examples
    if hue.shape == "num_examples":
        hue = replace(hue, shape="", shapes=())
    known = {c.num_examples for c in fit.configurations}
    if not any(np.isclose(wanted, n) for n in known):
        known.add(wanted)
    every = sorted(known, reverse=True)
    shown = int(np.argmin(np.abs(np.array(every) - wanted)))
    few = min(MOST, max(FEWEST_OF_ANOTHER, MOST_OF_OTHERS // max(1, len(every) - 1)))
    found = [
        _answer_set(fitted, hue, replace(question, num_examples=n), MOST if i == shown else few)
        for i, n in enumerate(every)
    ]
    for measure in known_measures(fit):
        if measure is not question.minimise:
            other = replace(fitted, minimise=measure)
            with suppress(PrunecastError):  # a number of examples of which no network has a known cost
                found += [
                    _answer_set(other, hue, replace(question, minimise=measure, num_examples=n), few)
                    for n in every
                ]
    first = found[shown]
    data = {**first.data, **_moving(first.choices[first.start])}
    spec = answer_chart(data, hue, _view(first, found), fit.metric)
    caption = wording.answer_caption(question.confidence, fit.metric)
    chart = Chart(name="answer", spec=spec, caption=caption)
    return AnswerPanel(fit=fit, question=question, chart=chart, sets=found, shown=shown)


def _answer_set(fitted: FittedTable, hue: Hue, question: Question, most: int) -> AnswerSet:
    fit, measured, num_examples = fitted.fit, fitted.rows, question.num_examples
    found = answers(fit, question, most)
    lines = curves(fit, family(fit, num_examples, question.sizes), question.minimise)
    used = {(one.answer.depth, one.answer.width) for one in found}
    others = [
        own
        for own in lines
        if not own.measured and (len(lines) <= MOST_CURVES or (own.depth, own.width) in used)
    ]
    frontier = [(_size(one), _target(one)) for one in found if one.met]
    here = measured[np.isclose(measured.num_examples, num_examples)]
    return AnswerSet(
        num_examples=num_examples,
        minimise=question.minimise,
        choices=found,
        start=_start(found, question.target_error),
        data=frontier_data(here, [own for own in lines if own.measured], others, frontier, hue),
        grid=_grid(found, fit),
    )


def answers(fit: Fit, question: Question, most: int = MOST) -> list[Choice]:
    """One choice per target in ascending order; no network meets the first target, and the second is the lowest met."""
    chooser = Chooser(fit, question)
    ends = around(promised(fit, chooser.least_error(), question.confidence))
    higher = [target for target in targets(ends[1], _highest_target(fit), most) if target > ends[1]]
    return chooser.choices([*ends, *higher])


def _target(one: Choice) -> float:
    assert one.question.target_error is not None
    return one.question.target_error


def _shown(one: Choice) -> str:
    """The target as it is written."""
    return numbers.target(_target(one), 4)


def _size(one: Choice) -> float:
    """The chosen network's size in the measure that is minimised."""
    size = choices.size_of(one.answer, one.question.minimise)
    return float("nan") if size is None else size


def _moving(one: Choice) -> dict[str, list[Row]]:
    """The data of the chart that follow the slider."""
    low, high = one.answer.interval
    return {
        "target": rows(error=[_target(one)]),
        "chosen": rows(size=[_size(one)], error=[one.answer.error], low=[low], high=[high]),
    }


def _highest_target(fit: Fit) -> float:
    """The highest target: below ε↑ or chance, or the largest measured error if the law is unusable."""
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
    """The error that new runs of a network stay below with this probability; at 0.5, the expected error."""
    share = quantile(fit, confidence) / quantile(fit, (1 + COVERAGE) / 2)
    return float(best.expected_error * (best.expected_error / best.interval[0]) ** share)


def around(error: float) -> tuple[float, float]:
    """The largest number of four digits below an error, and the next one."""
    unit = 10.0 ** (int(np.floor(np.log10(error))) - 3)
    above = int(np.ceil(error * (1 - 1e-6) / unit))
    return float(f"{(above - 1) * unit:.4g}"), float(f"{above * unit:.4g}")


def _start(found: Sequence[Choice], target: float | None) -> int:
    """The answer shown first: for the target asked for, else a third of the way up among those met."""
    if target is not None:
        return max((i for i, one in enumerate(found) if _target(one) <= target * (1 + 1e-9)), default=0)
    met = [i for i, one in enumerate(found) if one.met]
    return met[len(met) // 3] if met else 0


def _grid(found: Sequence[Choice], fit: Fit) -> Grid:
    """The answers to some of the targets."""
    step, naming, question = max(1, -(-len(found) // SHOWN_ANSWERS)), found[0].naming, found[0].question
    cost = question.minimise in choices.COSTS
    size = (
        choices.COSTS.get(question.minimise, "Stored parameters")
        if naming.counted
        else "Share of the largest"
    )
    several = len({own.num_examples for own in fit.configurations}) > 1
    which = f", {numbers.count(question.num_examples)} training examples" if several else ""
    rows = [
        [
            _shown(one) if one.met else f"{_shown(one)} (not met)",
            numbers.size(one.answer.depth),
            numbers.size(one.answer.width),
            numbers.density(one.answer.density),
            amount(naming, _size(one) if cost else one.answer.stored_parameters),
            choices.error(one.answer),
            numbers.interval(one.answer.interval),
        ]
        for one in found[::step]
    ]
    header = ["Target", "Depth", "Width", "Density", size, capital(fit.metric.word), wording.NEW_RUNS]
    return Grid(header=header, rows=rows, left=0, caption=f"The answers as a table{which}", long=True)


def _of(every: Sequence[AnswerSet], measure: Measure) -> list[AnswerSet]:
    return [own for own in every if own.minimise is measure]


def _view(own: AnswerSet, every: Sequence[AnswerSet]) -> dict[str, Any]:
    """The axes of the chart, which all answers in one measure share."""
    title = size_title(own.minimise, counted=own.choices[0].naming.counted)
    return view(own.data, [other.data for other in _of(every, own.minimise)], title)


def _lookup(own: AnswerSet, fit: Fit, every: Sequence[AnswerSet]) -> dict[str, Any]:
    return {
        "examples": numbers.count(own.num_examples),
        "start": own.start,
        "least": too_low(own.choices, fit),
        "view": _view(own, every),
        "answers": [
            {
                "target": _target(one),
                "shown": _shown(one),
                "met": one.met,
                "headline": wording.headline(one),
                "facts": choices.facts(one, fit.kept_per_level),
                "comparison": choices.comparison(one),
                "notes": sentences(one.findings, fit.metric),
                "data": _moving(one),
            }
            for one in own.choices
        ],
    }


def too_low(found: Sequence[Choice], fit: Fit) -> dict[str, Any]:
    """What the page shows for every target below the lowest that is met.

    Findings about the lowest target are left out: a network outside the measured range that meets it may miss the
    target that was typed.
    """
    best, question = found[0].answer, found[0].question
    least = around(promised(fit, best, question.confidence))[1]
    notes = sentences((own for own in found[0].findings if not isinstance(own, AboutTarget)), fit.metric)
    if question.sizes == DEFAULT_SIZES and fit.dense is not None:
        notes.insert(0, wording.ASK_FURTHER)
    network = network_name(found[0].naming, best.depth, best.width)
    headline = wording.nothing_meets(
        TYPED, numbers.target(least, 4), network, best, question.confidence, fit.metric
    )
    return {"headline": headline, "notes": notes}


def too_high(fit: Fit) -> list[dict[str, Any]]:
    """From which targets on no network is needed, and why; the page shows the first reason that applies."""
    chance = fit.origin.chance
    found = [] if chance is None else [{"from": chance, "headline": wording.guessing_suffices(TYPED, chance)}]
    if not verdict(fit).usable:  # trained networks still answer above the plateau that the law guesses
        return found
    return [*found, {"from": fit.high_error, "headline": wording.any_network_suffices(TYPED, fit)}]

"""The answer on top of the page, for every number of training examples that was measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prunecast.choice import DEFAULT_SIZES, examples_for
from prunecast.choice.spoken import Speak
from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.answer_chart import answer_data, chosen
from prunecast.report.answers import MOST, Answer, amount, answers, comparison, facts, headline
from prunecast.report.charts import UNITS, Hue, answer_chart, view
from prunecast.report.curves import Rows, curves, family
from prunecast.report.limits import beneath
from prunecast.report.parts import Chart, Grid
from prunecast.report.vega import Row
from prunecast.wording import sentences

MOST_OTHERS = 60
SHOWN_ANSWERS = 14
MOST_BESIDE, FEWEST_BESIDE = 240, 40
"""Targets of all numbers of examples beside the one shown first, and the fewest of each of them."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the page is asked for; None is the most examples measured."""

    target_error: float | None = None
    minimise: str = "stored"
    num_examples: float | None = None
    sizes: str = DEFAULT_SIZES
    confidence: float = 0.5


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The answers for one number of examples: what the slider looks up, what is drawn, and the same as a table."""

    num_examples: float
    found: Sequence[Answer]
    start: int
    data: dict[str, list[Row]]
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class Top:
    """The chart, and the answers for each number of examples, `shown` first."""

    chart: Chart
    answered: Sequence[Answered]
    shown: int
    minimise: str
    target_error: float | None
    """the target asked for"""
    text: Sequence[str]
    """what a reader should know where there are several numbers of examples"""


def top(fit: Fit, measured: Rows, own: Hue, asked: Asked) -> Top:
    """Ask for every target and every number of examples, the measured ones and the one asked for."""
    if own.shape == "num_examples":
        own = replace(own, shape="", shapes=())
    wanted = examples_for(fit, asked.num_examples)
    known = sorted({c.num_examples for c in fit.configurations}, reverse=True)
    every = known if any(np.isclose(wanted, n) for n in known) else sorted([*known, wanted], reverse=True)
    shown = int(np.argmin(np.abs(np.array(every) - wanted)))
    beside = max(FEWEST_BESIDE, MOST_BESIDE // max(1, len(every) - 1))
    answered = [
        _answered(fit, measured, own, asked, n, MOST if index == shown else min(MOST, beside), len(every) > 1)
        for index, n in enumerate(every)
    ]
    one = answered[shown]
    first = {**one.data, **chosen(one.found[one.start], asked.minimise)}
    counted = one.found[0].choice.naming.largest is None
    unit = UNITS[asked.minimise] if counted else "size, in proportion to the weights"
    spec = answer_chart([own_data.data for own_data in answered], first, own, unit, fit.metric)
    return Top(
        chart=Chart(name="answer", spec=spec, caption=_caption(asked)),
        answered=answered,
        shown=shown,
        minimise=asked.minimise,
        target_error=asked.target_error,
        text=_several(fit, every) if len(every) > 1 else [],
    )


def _caption(asked: Asked) -> str:
    sure = "" if asked.confidence == 0.5 else f", met by {asked.confidence:.0%} of trainings"
    return (
        "Dots are measured networks, coloured lines the law for each measured size, grey lines sizes nobody trained. "
        f"The thick line is the frontier, the fewest parameters for each error{sure}; the large dot is the network "
        "recommended, its bar the interval in which 95% of new trainings fall."
    )


def _several(fit: Fit, every: Sequence[float]) -> list[str]:
    """How one law speaks of several dataset sizes."""
    through = "the unpruned error alone"
    if "num_examples" in fit.axes or "dip_ratio" in fit.parameters:
        through = "the unpruned error, " + words.listed(
            [
                *(["the invariant m*"] if "num_examples" in fit.axes else []),
                *(["the depth of the dip"] if "dip_ratio" in fit.parameters else []),
            ]
        )
    return [
        f"One law was fitted to all {len(every)} dataset sizes together. In it the number of training examples acts "
        f"through {through}: choose the number you will train on, and the network, the curves and the frontier follow."
    ]


def _answered(
    fit: Fit, measured: Rows, own: Hue, asked: Asked, num_examples: float, most: int, several: bool
) -> Answered:
    found = answers(
        fit,
        minimise=asked.minimise,
        num_examples=num_examples,
        sizes=asked.sizes,
        confidence=asked.confidence,
        most=most,
    )
    lines = curves(fit, family(fit, num_examples, asked.sizes), asked.minimise)
    used = {(a.network.depth, a.network.width) for a in found}
    others = [
        c for c in lines if not c.measured and (len(lines) <= MOST_OTHERS or (c.depth, c.width) in used)
    ]
    here = np.isclose(measured.num_examples, num_examples)
    shown = Rows(**{name: value[here] for name, value in vars(measured).items()})
    known = [c for c in lines if c.measured]
    return Answered(
        num_examples=num_examples,
        found=found,
        start=_start(found, asked.target_error),
        data=answer_data(shown, known, others, found, own, asked.minimise),
        grid=_grid(found, f", {words.count(num_examples)} training examples" if several else ""),
    )


def _start(found: Sequence[Answer], target: float | None) -> int:
    """The answer shown first: for the target asked for, else a third of the way up among those met."""
    if target is not None:
        below = [i for i, answer in enumerate(found) if answer.target <= target * (1 + 1e-9)]
        return below[-1] if below else 0
    met = [i for i, answer in enumerate(found) if answer.choice.met]
    return met[len(met) // 3] if met else 0


def _grid(found: Sequence[Answer], which: str) -> Grid:
    step = max(1, -(-len(found) // SHOWN_ANSWERS))
    size = "Stored parameters" if found[0].choice.naming.largest is None else "Share of the largest"
    return Grid(
        header=["Target", "Depth", "Width", "Density", size, "Error", "95% of new trainings"],
        rows=[
            [
                a.shown if a.choice.met else f"{a.shown} (not met)",
                words.size(a.network.depth),
                words.size(a.network.width),
                words.density(a.network.density),
                amount(a),
                words.error(a.network.error),
                " – ".join(map(words.error, a.network.interval)),
            ]
            for a in found[::step]
        ],
        left=0,
        caption=f"The answers as a table{which}",
        folded=True,
    )


def lookup(made: Top, speak: Speak) -> list[dict[str, Any]]:
    """What selector and slider show: for each number of examples and target, words and points, nothing to compute."""
    return [
        {
            "examples": words.count(one.num_examples),
            "start": one.start,
            "least": beneath(one.found, speak),
            "view": view(one.data),
            "answers": [_entry(answer, made.minimise, speak) for answer in one.found],
        }
        for one in made.answered
    ]


def _entry(answer: Answer, minimise: str, speak: Speak) -> dict[str, Any]:
    return {
        "target": answer.target,
        "shown": answer.shown,
        "met": answer.choice.met,
        "headline": speak(headline(answer)),
        "facts": [[speak(name), value, speak(remark)] for name, value, remark in facts(answer)],
        "comparison": speak(comparison(answer)),
        "notes": sentences(answer.choice.findings, answer.choice.metric),
        "data": chosen(answer, minimise),
    }

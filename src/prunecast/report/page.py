"""The page of a table: the answer on top, the evidence below."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.report import charts, sections, words
from prunecast.report.answer_chart import answer_chart, chosen
from prunecast.report.answers import Answer, answers, comparison, facts, headline
from prunecast.report.curves import Rows, curves, family, measured_curves, measured_rows
from prunecast.report.evidence import study_sections
from prunecast.report.html import render
from prunecast.report.parts import Chart, Grid, Section
from prunecast.report.vega import rows
from prunecast.table import Table

MOST_OTHERS = 60
SHOWN_ANSWERS = 14


@dataclass(frozen=True, kw_only=True)
class Answered:
    """The answer on top: what the slider looks up, the chart, and the same as a table."""

    found: Sequence[Answer]
    start: int
    chart: Chart
    grid: Grid
    minimise: str


def page(
    table: Table,
    *,
    law: str = "eq2",
    target_error: float | None = None,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = "around",
    confidence: float = 0.5,
    studies: bool = True,
    all_studies: bool = False,
    command: str = "prunecast.report.page",
) -> str:
    """The whole page of a table as HTML; a table too small to fit gives a page that says what is missing."""
    try:
        fitted = fit(table, law=law)
    except PrunecastError as problem:
        return render(
            table, None, [_missing(table, str(problem)), sections.origin_section(table, None, command)]
        )
    own = charts.hue(fitted.configurations)
    measured = measured_rows(table, fitted, minimise)
    try:
        found = answers(
            fitted, minimise=minimise, num_examples=num_examples, sizes=sizes, confidence=confidence
        )
        top = _answered(fitted, measured, own, found, _start(found, target_error))
    except PrunecastError:
        asked = (minimise, num_examples, sizes, confidence)
        if asked != ("stored", None, "around", 0.5):
            raise
        top = None
    body = [
        sections.fit_section(fitted, measured, own),
        sections.parameters_section(fitted),
        sections.invariant_section(fitted, measured, measured_curves(fitted), own),
    ]
    if studies:
        after = tuple(study_sections(table, fitted, everything=all_studies))
        text = [
            "Each asks the table one question; `prunecast study NAME TABLE --json` gives all its numbers."
        ]
        body.append(Section(name="studies", title="The evidence", text=text, after=after))
    body += [sections.unknown_section(fitted), sections.origin_section(table, fitted, command)]
    if top is None:
        return render(table, fitted, body)
    return render(table, fitted, body, chart=top.chart, grid=top.grid, found=lookup(top), start=top.start)


def _answered(fitted: Fit, measured: Rows, own: charts.Hue, found: Sequence[Answer], start: int) -> Answered:
    question = found[0].choice.question
    minimise = question.minimise
    members = family(fitted, question.num_examples, question.sizes)
    lines = curves(fitted, members, minimise)
    used = {(a.network.depth, a.network.width) for a in found}
    others = [
        c for c in lines if not c.measured and (len(lines) <= MOST_OTHERS or (c.depth, c.width) in used)
    ]
    here = np.isclose(measured.num_examples, members.num_examples[0])
    shown = Rows(**{name: value[here] for name, value in vars(measured).items()})
    known = [c for c in lines if c.measured]
    spec = answer_chart(shown, known, others, found, start, own, minimise)
    sure = "" if question.confidence == 0.5 else f", met by {question.confidence:.0%} of trainings"
    caption = (
        "Dots are measured networks, coloured lines the law for each measured size, grey lines sizes nobody trained. "
        f"The thick line is the frontier, the fewest parameters for each error{sure}; the large dot is the network "
        "recommended, its bar the interval in which 95% of new trainings fall."
    )
    return Answered(
        found=found,
        start=start,
        chart=Chart(name="answer", spec=spec, caption=caption),
        grid=_answers_grid(found),
        minimise=minimise,
    )


def _start(found: Sequence[Answer], target: float | None) -> int:
    """The answer shown first: for the target asked for, else a third of the way up among those met."""
    if target is not None:
        below = [i for i, answer in enumerate(found) if answer.target <= target * (1 + 1e-9)]
        return below[-1] if below else 0
    met = [i for i, answer in enumerate(found) if answer.choice.met]
    return met[len(met) // 3] if met else 0


def _answers_grid(found: Sequence[Answer]) -> Grid:
    step = max(1, -(-len(found) // SHOWN_ANSWERS))
    return Grid(
        header=["Target", "Depth", "Width", "Density", "Stored parameters", "Error", "95% of new trainings"],
        rows=[
            [
                words.error(a.target) if a.choice.met else f"{words.error(a.target)} (not met)",
                words.size(a.network.depth),
                words.size(a.network.width),
                words.density(a.network.density),
                words.count(a.network.stored_parameters),
                words.error(a.network.error),
                " – ".join(map(words.error, a.network.interval)),
            ]
            for a in found[::step]
        ],
        left=0,
        caption="The answers as a table",
        folded=True,
    )


def lookup(top: Answered) -> list[dict[str, Any]]:
    """What the slider shows for each target: words and the two points of the chart, nothing left to compute."""
    return [
        {
            "target": answer.target,
            "shown": words.error(answer.target),
            "met": answer.choice.met,
            "headline": headline(answer),
            "facts": [list(fact) for fact in facts(answer)],
            "comparison": comparison(answer),
            "notes": list(answer.choice.notes),
            "data": chosen(answer, top.minimise),
        }
        for answer in top.found
    ]


def _missing(table: Table, problem: str) -> Section:
    """What a table too small to fit still shows, and what it lacks."""
    frame = table.frame
    own = charts.hue(list(frame[["width", "depth", "num_examples"]].itertuples()))
    points = rows(
        hue=[words.size(value) for value in frame[own.axis]],
        depth=map(words.size, frame["depth"]),
        width=map(words.size, frame["width"]),
        n=map(words.count, frame["num_examples"]),
        density=frame["density"],
        error=frame["error"],
    )
    return Section(
        name="missing",
        title="No law yet",
        text=[f"No law could be fitted: {problem}."],
        notes=[
            "A law of one network needs at least four levels, best down to where the error no longer rises.",
            "A law of a family needs several widths or depths, each pruned through many levels.",
            "Rows no better than chance do not count.",
        ],
        charts=[
            Chart(
                name="raw",
                spec=charts.raw_chart(points, own),
                caption=f"What was measured: {words.plural(len(frame), 'row')}.",
            )
        ],
    )


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as problem:
        aside.unlink(missing_ok=True)
        raise PrunecastError(f"{path} cannot be written: {problem.strerror}") from None

"""The page of a table: the answer on top, the evidence below."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prunecast.choice import DEFAULT_SIZES, as_fit, check_target, validated
from prunecast.errors import PrunecastError, sentence
from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.report import charts, sections, spoken, words
from prunecast.report.charts import Hue
from prunecast.report.curves import Rows, measured_curves, measured_rows
from prunecast.report.evidence import study_sections
from prunecast.report.html import render
from prunecast.report.parts import Chart, Section
from prunecast.report.top import Asked, Top, top
from prunecast.report.vega import rows
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class Page:
    """One HTML file, and what it could not show."""

    html: str
    missing: str = ""
    """why there is no law or no answer on it, in a sentence; empty where both are there"""


def page(
    table: Table,
    *,
    law: str = "auto",
    target_error: float | None = None,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
    confidence: float = 0.5,
    studies: bool = True,
    all_studies: bool = False,
    command: str = "prunecast.report.page",
    tell: Callable[[str], None] = lambda step: None,
) -> Page:
    """The whole page of a table; one of a table too small to fit says what is missing.

    As in `choose`, validation errors count where every row has one. `tell` is told of each step as it begins, for a
    page of a large table takes a while.
    """
    check_target(target_error, Metric(table.metric))
    asked = Asked(
        target_error=target_error,
        minimise=minimise,
        num_examples=num_examples,
        sizes=sizes,
        confidence=confidence,
    )
    tell("fitting the law")
    try:
        fitted = as_fit(table, law)
    except PrunecastError as problem:
        why = f"No law could be fitted: {sentence(problem)}"
        body = [_missing(table, why), sections.origin_section(table, None, command)]
        speak = spoken.speaker(table.metric)
        return Page(html=render(table, None, body, speak=speak), missing=speak(why))
    judged = validated(table) or table
    own = charts.hue_of(fitted)
    measured = measured_rows(judged, fitted, minimise)
    tell("choosing a network for every target")
    answer, why = _answer(fitted, measured, own, asked)
    body = [
        *([Section(name="missing", title="No answer yet", text=[why])] if why else []),
        sections.fit_section(fitted, measured, own),
        sections.parameters_section(fitted),
        sections.invariant_section(fitted, measured, measured_curves(fitted), own),
        *([_evidence(judged, fitted, tell, everything=all_studies)] if studies else []),
        sections.unknown_section(fitted),
        sections.origin_section(table, fitted, command),
    ]
    speak = spoken.speaker(table.metric, fitted)
    tell("writing the page")
    return Page(html=render(table, fitted, body, answer=answer, speak=speak), missing=speak(why))


def _answer(fitted: Fit, measured: Rows, own: Hue, asked: Asked) -> tuple[Top | None, str]:
    """The answer, or why the table allows none, unless it is the question that is at fault."""
    try:
        return top(fitted, measured, own, asked), ""
    except PrunecastError as problem:
        if asked != Asked(target_error=asked.target_error):
            raise
        return None, f"No answer can be given: {sentence(problem)}"


def _evidence(table: Table, fitted: Fit, tell: Callable[[str], None], *, everything: bool) -> Section:
    text = (
        "Each asks the table one question; `prunecast study NAME TABLE --json` gives all its numbers. Where a study "
        f"names no other, the law is the one above, {words.LAWS[fitted.law]}."
    )
    after = tuple(study_sections(table, fitted, tell, everything=everything))
    return Section(name="studies", title="The evidence", text=[text], after=after)


def _missing(table: Table, why: str) -> Section:
    """What a table too small to fit still shows, and what it lacks."""
    frame = table.frame
    own = charts.hue({axis: frame[axis] for axis in charts.AXES})
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
        text=[why],
        notes=[
            "A law of one network needs at least four levels, best down to where the error no longer rises.",
            "A law of a family needs several widths or depths, each pruned through many levels.",
            "Rows no better than chance do not count.",
        ],
        charts=[
            Chart(
                name="raw",
                spec=charts.raw_chart(points, own, Metric(table.metric)),
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
        raise PrunecastError(f"{path} cannot be written: {problem.strerror}; choose another place") from None

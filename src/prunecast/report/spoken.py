"""The page's words in the metric of its table: sentences speak of errors, and are turned where a table holds losses."""

import re
from dataclasses import replace

from prunecast.choice import spoken
from prunecast.choice.spoken import Speak
from prunecast.laws import Fit
from prunecast.metric import Metric
from prunecast.report.parts import Chart, Grid, Section


def speaker(metric: str, fit: Fit | None = None) -> Speak:
    """How to say a sentence about errors for a table of this metric, or for one that is judged by its validation."""
    if fit is not None and fit.metric is Metric.VALIDATION_ERROR:
        return lambda text: re.sub(r"\b([Tt])est error", _validation, text)
    return spoken.speaker(metric)


def _validation(found: re.Match[str]) -> str:
    return "Validation error" if found[1] == "T" else "validation error"


def section(one: Section, speak: Speak) -> Section:
    """A section with every sentence and heading turned."""
    return replace(
        one,
        title=speak(one.title),
        text=[speak(text) for text in one.text],
        tiles=[(speak(name), value, speak(remark)) for name, value, remark in one.tiles],
        charts=[chart(own, speak) for own in one.charts],
        grids=[grid(own, speak) for own in one.grids],
        notes=[speak(note) for note in one.notes],
        after=[section(own, speak) for own in one.after],
    )


def grid(one: Grid, speak: Speak) -> Grid:
    """A table with its headings and words turned."""
    return replace(
        one,
        header=[speak(name) for name in one.header],
        rows=one.rows if one.verbatim else [[speak(cell) for cell in row] for row in one.rows],
        caption=speak(one.caption),
    )


def chart(one: Chart, speak: Speak) -> Chart:
    """A chart with its caption turned; its titles have the right word already."""
    return replace(one, caption=speak(one.caption))

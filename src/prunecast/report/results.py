"""Results as people look at them in Python: as the command line prints them, in a notebook, as LaTeX, as a plot."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

from prunecast.choice import Choice, Frontier
from prunecast.errors import PrunecastError
from prunecast.files import check_folder, replace_file
from prunecast.laws import Comparison, Fit, Prediction
from prunecast.report import charts, terminal
from prunecast.report.choices import choice, frontier
from prunecast.report.curves import fitted_rows, measured_curves
from prunecast.report.document import Grid, Section, facts_grid
from prunecast.report.fits import fit_summary, predictions, scores
from prunecast.report.latex import latex_tables
from prunecast.report.vega import FIGURE, WIDE, Spec, figure, layers_of, panel, rendered, share_y

FORMATS = ("pdf", "png", "svg")


def section_of(result: object) -> Section:
    """The result of fit, predict, compare, choose or frontier as one section."""
    if isinstance(result, Fit):
        return fit_summary(result)
    if isinstance(result, Choice):
        return choice(result)
    if isinstance(result, Comparison):
        return scores(result, result.metric)
    if isinstance(result, Prediction):
        return predictions(result, result.metric)
    if isinstance(result, Frontier):
        return frontier(result)
    raise PrunecastError(
        f"a {type(result).__name__} has no description; a Fit, Choice, Comparison, Prediction or Frontier has one"
    )


def describe(result: Fit | Choice | Comparison | Prediction | Frontier) -> str:
    """A result in words and tables, with its findings as sentences; the same as its `summary()`.

    Args:
        result: what `fit`, `choose`, `compare`, `predict` or `frontier` returned.

    Returns:
        Plain text of several lines.
    """
    return result_text(result)


def result_text(result: object) -> str:
    """A result as the command line prints it."""
    return terminal.text(section_of(result))


def result_latex(result: object) -> str:
    """The tables of a result as LaTeX."""
    return latex_tables(section_of(result))


def result_html(result: object) -> str:
    """A result as a piece of HTML, for notebooks."""
    return "\n".join(["<div>", *_html(section_of(result)), "</div>"])


def _html(section: Section) -> Iterator[str]:
    if section.title:
        yield f"<p><strong>{escape(section.title)}</strong></p>"
    yield from (f"<p>{escape(line)}</p>" for line in section.text)
    if section.facts:
        yield from _html_table(facts_grid(section.facts))
    for grid in section.grids:
        yield from _html_table(grid)
    if section.notes:
        yield "<ul>"
        yield from (f"<li>{escape(note)}</li>" for note in section.notes)
        yield "</ul>"
    for one in section.subsections:
        yield from _html(one)


def _html_table(grid: Grid) -> Iterator[str]:
    def cells(tag: str, row: tuple[str, ...]) -> str:
        sides = ("left" if index < grid.left else "right" for index in range(len(row)))
        inner = (
            f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
            for cell, side in zip(row, sides, strict=True)
        )
        return f"<tr>{''.join(inner)}</tr>"

    yield "<table>"
    if grid.caption:
        yield f"<caption>{escape(grid.caption)}</caption>"
    if any(grid.header):
        yield f"<thead>{cells('th', tuple(grid.header))}</thead>"
    shown = terminal.some(grid.rows) if grid.long else grid.rows
    yield "<tbody>"
    yield from (cells("td", tuple(row)) for row in shown)
    yield "</tbody></table>"


@dataclass(frozen=True)
class VegaPlot:
    """A chart as a Vega-Lite specification; a notebook shows it as SVG."""

    spec: Spec

    def save(self, path: str | Path) -> Path:
        """Write the chart as PDF, PNG or SVG, by the ending of the file's name; returns the path."""
        place = Path(path)
        kind = place.suffix.lower().lstrip(".")
        if kind not in FORMATS:
            raise PrunecastError(f"{place}: a plot is saved as .pdf, .png or .svg")
        check_folder(place)
        replace_file(place, _drawn(self.spec)[kind])
        return place

    def _repr_svg_(self) -> str:
        return _drawn(self.spec)["svg"].decode()


def _drawn(spec: Spec) -> dict[str, bytes]:
    try:
        return rendered(spec)
    except ModuleNotFoundError as missing:
        raise PrunecastError(
            f"a plot needs {missing.name}: install it with pip install 'prunecast[report]'"
        ) from None


def result_plot(result: object) -> VegaPlot:
    """The measured errors of a fit and its curves, against density and, where there is one, the invariant."""
    if not isinstance(result, Fit):
        raise PrunecastError(f"a {type(result).__name__} has no plot; a Fit has one")
    shown, curves, hue = fitted_rows(result), measured_curves(result), charts.hue_of(result)

    def drawn(along: str, title: str) -> list[Spec]:
        own = charts.error_chart(shown, curves, hue, along, result.metric, title=title, theme=FIGURE)
        return layers_of(own)

    heading = f"Measured (dots) and {result.title} (lines)"
    panels = [panel(heading, drawn("density", "density"), size=WIDE)]
    if result.axes:
        formula = f"m* = {charts.invariant_formula(result)}"
        panels.append(panel("Against the invariant", drawn("m", formula), size=WIDE))
    return VegaPlot(figure(share_y(panels), one_legend=True))

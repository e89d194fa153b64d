"""Measured networks as dots: colours tell one axis apart, and shapes the next one that varies."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from prunecast.laws.points import Floats
from prunecast.report import words
from prunecast.report.charts import MANY_POINTS, Hue
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import GREY, legend, shades

MARKS = ("o", "^", "s", "D", "P", "v")
"""As many as the page has shapes."""
Shown = NDArray[np.bool_] | None


def dots(panel: Axes, source: Source, x: Floats, shown: Shown = None) -> None:
    """Errors of all rows, or of those shown, against some quantity."""
    rows, own = source.rows, source.hue
    here = np.full(len(rows), True) if shown is None else shown
    colour, size = shades(own.values), 12 if here.sum() <= MANY_POINTS else 6
    for shape, mark in _marks(own).items():
        these = here & np.isclose(_shapes(source), shape)
        shade = [colour[float(value)] for value in getattr(rows, own.axis)[these]]
        panel.scatter(x[these], rows.error[these], s=size, c=shade, marker=mark, zorder=3)


def key(panel: Axes, source: Source, shown: Shown = None) -> None:
    """What colours and shapes mean, to the right of a panel."""
    own, here = source.hue, slice(None) if shown is None else shown
    colour, marks = shades(own.values), _marks(own)
    for value in _present(getattr(source.rows, own.axis)[here], own.values):
        panel.plot([], [], "o", color=colour[value], label=words.size(value))
    legend(panel, words.axis(own.axis))
    told = _present(_shapes(source)[here], own.shapes)
    if len(told) > 1:
        _second(panel, {words.size(value): marks[value] for value in told}, words.axis(own.shape))


def _marks(own: Hue) -> dict[float, str]:
    return dict(zip(own.shapes or (0.0,), MARKS, strict=False))


def _shapes(source: Source) -> Floats:
    """The value that a row's shape stands for; zero where shapes tell nothing."""
    rows = source.rows
    return np.asarray(getattr(rows, source.hue.shape)) if source.hue.shape else np.zeros(len(rows))


def _present(values: Floats, known: tuple[float, ...]) -> list[float]:
    return [value for value in known if np.isclose(values, value).any()]


def _second(panel: Axes, marks: dict[str, str], title: str) -> None:
    """A second legend, at the lower end of the panel, so that the first stays where it is."""
    colours = panel.get_legend()
    lines = [panel.plot([], [], mark, color=GREY)[0] for mark in marks.values()]
    panel.legend(
        lines,
        list(marks),
        title=title,
        title_fontsize=8.5,
        alignment="left",
        loc="lower left",
        bbox_to_anchor=(1.0, 0.0),
        borderaxespad=0.2,
    )
    if colours is not None:
        panel.add_artist(colours).set_clip_on(False)  # clipped, it would be no part of the layout

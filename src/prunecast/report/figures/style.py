"""One style for every figure: sizes, colours, and logarithmic axes labelled in plain numbers."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from prunecast.report.palette import colours
from prunecast.report.vega import ticks

PANEL = (5.2, 3.7)
"""Inches of one panel."""
DPI = 200
BESIDE, CHARACTER = 1.9, 0.083
"""Inches of a panel that axis and legend take of its width, and of a character of a label."""
GREY, FAINT = "#5B6470", "#C9CED6"
STYLE: Any = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E9EE",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}


def panels(
    count: int, *, shared: bool = False, size: tuple[float, float] = PANEL
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, at most three in a row."""
    columns = min(count, 3)
    lines = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [one for row in figure.subplots(lines, columns, squeeze=False, sharey=shared) for one in row]
    for spare in axes[count:]:
        spare.set_visible(False)
    return figure, axes[:count]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """The figure as PDF and PNG, the same bytes from the same numbers."""
    paths = [folder / f"{name}.pdf", folder / f"{name}.png"]
    figure.savefig(paths[0], metadata={"CreationDate": None})
    figure.savefig(paths[1], dpi=DPI, metadata={"Software": None})
    return paths


def log_axis(axis: Any, values: Iterable[float], *, margin: float = 1.06) -> None:
    """Make an axis logarithmic over some values, with plain numbers at round places."""
    found = [value for value in values if value == value and value > 0]
    low, high = min(found) / margin, max(found) * margin
    is_x = axis.axis_name == "x"
    (axis.axes.set_xscale if is_x else axis.axes.set_yscale)("log")
    (axis.axes.set_xlim if is_x else axis.axes.set_ylim)(low, high)
    places = ticks([low, high])
    axis.set_major_locator(FixedLocator(_apart(places, low, high, axis) if is_x else places))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axis.set_minor_formatter(NullFormatter())


def _plain(value: float) -> str:
    return f"{value:,.10g}"


def _apart(places: list[float], low: float, high: float, axis: Any) -> list[float]:
    """Labels that do not run into each other: all, all but the first, powers of ten, or every second or third."""
    columns = int(axis.axes.get_subplotspec().get_gridspec().ncols)
    length = float(axis.axes.figure.get_figwidth()) / columns - BESIDE
    tens = [place for place in places if math.isclose(math.log10(place) % 1, 0, abs_tol=1e-9)]
    choices = [places, places[1:], *([tens] if len(tens) > 2 else []), places[::2], places[::3]]

    def gap(one: float, two: float) -> float:
        room = length * math.log(two / one) / math.log(high / low)
        return room - CHARACTER * (len(_plain(one)) + len(_plain(two))) / 2

    return next((one for one in choices if all(gap(*two) > CHARACTER for two in pairwise(one))), choices[-1])


def shades(values: Sequence[float]) -> dict[float, str]:
    """A colour for each value."""
    return dict(zip(values, colours(len(values)), strict=True))


def heading(figure: Figure, text: str) -> None:
    """A line above all panels, at the left as their own titles are."""
    figure.suptitle(text, x=0.01, ha="left", fontsize=STYLE["axes.titlesize"] + 1)


def legend(axes: Axes, title: str) -> None:
    """A legend to the right of the panel, where it covers nothing."""
    handles, _ = axes.get_legend_handles_labels()
    if len(handles) > 1:
        axes.legend(
            title=title or None,
            title_fontsize=8.5,
            alignment="left",
            loc="upper left",
            bbox_to_anchor=(1.0, 1.02),
            borderaxespad=0.2,
        )


def spoken(figure: Figure, speak: Callable[[str], str]) -> None:
    """Turn every word of a figure into those of the table's metric."""
    for text in figure.findobj(Text):
        if isinstance(text, Text) and text.get_text():
            text.set_text(speak(text.get_text()))

"""Results show themselves as text, in a notebook, as LaTeX and as a plot.

A result holds numbers and knows nothing of terminals, HTML or charts. It inherits the methods of `Displayable`, which
ask the one display that the package has: `prunecast.report`, imported when something is first shown.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol


class Plot(Protocol):
    """A chart that a notebook shows and that can be saved."""

    @property
    def spec(self) -> dict[str, Any]:
        """The chart as a Vega-Lite specification."""

    def save(self, path: str | Path) -> Path:
        """Write the chart as PDF, PNG or SVG, by the ending of the file's name."""


class Display(Protocol):
    """Turns results into text, HTML, LaTeX and plots."""

    def result_text(self, result: object) -> str:
        """A result as plain text."""

    def result_html(self, result: object) -> str:
        """A result as a piece of HTML."""

    def result_latex(self, result: object) -> str:
        """The tables of a result as LaTeX."""

    def result_plot(self, result: object) -> Plot:
        """The chart of a result."""


_providers: list[Callable[[], Display]] = []


def set_display(provider: Callable[[], Display]) -> None:
    """Set the provider of the display, which is called when a result is shown."""
    _providers[:] = [provider]


def display() -> Display:
    """The display of the package."""
    return _providers[-1]()


class Displayable:
    """A result that can be shown."""

    __slots__ = ()

    def summary(self) -> str:
        """The result in words and tables, as the command line prints it, with its findings as sentences."""
        return display().result_text(self)

    def to_latex(self) -> str:
        """The tables of the result as LaTeX `table` environments; they need the package booktabs."""
        return display().result_latex(self)

    def _repr_html_(self) -> str:
        """The summary as a notebook shows it."""
        return display().result_html(self)


class Plottable(Displayable):
    """A result that also has a chart."""

    __slots__ = ()

    def plot(self) -> Plot:
        """The chart of the result: a notebook shows it, and `plot().save("curves.pdf")` writes PDF, PNG or SVG.

        Raises PrunecastError where the charting library is missing (`pip install 'prunecast[report]'`).
        """
        return display().result_plot(self)

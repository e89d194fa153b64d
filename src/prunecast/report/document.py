"""The parts of a document: sections of text, facts, charts, tables and notes.

A result becomes a section once. `report.terminal` prints sections as plain text, `report.html` as a page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


class Fact(NamedTuple):
    """One number with its name and, where needed, a remark."""

    name: str
    value: str
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table of text cells; the first `left` columns are words, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: str = ""
    long: bool = False
    """whether there may be many rows: the page folds them away, the terminal shows a dozen of them"""


def facts_grid(facts: Sequence[Fact]) -> Grid:
    """Facts as a table without a header."""
    return Grid(header=["", "", ""], rows=[tuple(fact) for fact in facts], left=3)


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A Vega-Lite chart with its name and a sentence about what it shows."""

    name: str
    spec: dict[str, Any]
    caption: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a document."""

    name: str = ""
    title: str = ""
    text: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    charts: Sequence[Chart] = ()
    """drawn on the page only"""
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    subsections: Sequence["Section"] = ()
    side_by_side: bool = False
    """whether the page puts tables and notes next to the chart, or notes next to the tables, if there is room"""

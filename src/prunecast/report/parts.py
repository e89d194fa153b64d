"""What the page is made of: sections of sentences, tables and charts, all of it text for the template to escape."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from prunecast.report.vega import Spec


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table: the first `left` columns are words, the others numbers."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1
    caption: str = ""
    folded: bool = False
    """behind a line to open, for long tables"""
    verbatim: bool = False
    """whether cells are the table's own words, which are never turned"""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A chart with its name on the page and what it shows in a sentence."""

    name: str
    spec: Spec
    caption: str


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of the page."""

    name: str
    title: str
    text: Sequence[str] = ()
    tiles: Sequence[tuple[str, str, str]] = ()
    """name, value and remark of a few numbers that stand out"""
    charts: Sequence[Chart] = ()
    grids: Sequence[Grid] = ()
    notes: Sequence[str] = ()
    after: Sequence["Section"] = field(default=())
    beside: bool = False
    """whether short tables and notes stand beside the chart, or notes beside the tables, where there is room"""

"""Sections as plain text of a fixed width, without colour, so that they look the same everywhere."""

import math
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from prunecast.report.document import Fact, Grid, Section
from prunecast.text import printable

WIDTH = 110
LONGEST = 12
"""Rows shown of a long table."""


def text(*sections: Section) -> str:
    """Sections one after the other, with an empty line between any two blocks."""
    stream = StringIO()
    console = Console(file=stream, width=WIDTH, color_system=None, highlight=False, emoji=False, markup=False)
    for index, block in enumerate(block for section in sections for block in _blocks(section)):
        console.print(*([""] if index else []), *block, sep="\n")
    return "\n".join(line.rstrip() for line in printable(stream.getvalue()).rstrip("\n").split("\n"))


def _blocks(section: Section) -> Iterator[list[RenderableType]]:
    """Title and text, facts, each table with its caption, notes, then the subsections."""
    opening: list[RenderableType] = [Text(line) for line in (section.title, *section.text) if line]
    if opening:
        yield opening
    if section.facts:
        yield [_facts(section.facts)]
    for grid in section.grids:
        yield [*([Text(grid.caption)] if grid.caption else []), table(grid)]
    if section.notes:
        yield [_bullets(section.notes)]
    for one in section.subsections:
        yield from _blocks(one)


def table(grid: Grid) -> Table:
    """A table whose words may wrap and whose numbers may not; of a long one at most a dozen rows."""
    made = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=any(grid.header))
    for index, name in enumerate(grid.header):
        words = index < grid.left
        made.add_column(Text(name), justify="left" if words else "right", no_wrap=not words)
    for row in some(grid.rows) if grid.long else grid.rows:
        made.add_row(*map(Text, row))
    return made


def some(rows: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
    """About a dozen rows, evenly spaced, always with the last one."""
    step = max(1, math.ceil(len(rows) / LONGEST))
    return [*rows[: len(rows) - 1 : step], *rows[-1:]]


def _facts(facts: Iterable[Fact]) -> Table:
    made = Table.grid(padding=(0, 3))
    for justify in ("left", "right", "left"):
        made.add_column(justify=justify)
    for fact in facts:
        made.add_row(*map(Text, fact))
    return made


def _bullets(notes: Iterable[str]) -> Table:
    made = Table.grid(padding=(0, 1))
    for note in notes:
        made.add_row(Text("-"), Text(note))
    return made

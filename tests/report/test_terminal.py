"""Sections as plain text."""

import pytest

from prunecast.report import Chart, Fact, Grid, Section, terminal

SECTION = Section(
    title="A title",
    text=["One sentence.", "Another [red]sentence[/red] :smile:"],
    facts=[Fact("Size", "12", "weights"), Fact("Training cost", "3")],
    charts=[Chart(name="drawn", spec={}, caption="only on the page")],
    grids=[Grid(header=["Width", "Error"], rows=[["1/2", "0.2000"], ["1", "0.1000"]], caption="Networks")],
    notes=["A note.", "long " * 40],
    subsections=[Section(title="Inner")],
)
TEXT = """A title
One sentence.
Another [red]sentence[/red] :smile:

Size            12   weights
Training cost    3

Networks
Width    Error
──────────────
1/2     0.2000
1       0.1000

- A note.
- long long long long long long long long long long long long long long long long long long long long long
  long long long long long long long long long long long long long long long long long long long

Inner"""


def test_blocks_are_apart_and_nothing_is_markup():
    assert terminal.text(SECTION) == TEXT


def test_sections_follow_each_other():
    assert terminal.text(Section(title="One"), Section(title="Two")) == "One\n\nTwo"


@pytest.mark.parametrize("count", [1, 12, 13, 25, 200])
def test_a_long_table_shows_about_a_dozen_rows_and_the_last(count):
    rows = [[str(number)] for number in range(count)]
    grid = Grid(header=["Number"], rows=rows, long=True)
    shown = [line.strip() for line in terminal.text(Section(title="", grids=[grid])).splitlines()[2:]]
    assert len(shown) <= 13
    assert shown[0] == "0"
    assert shown[-1] == str(count - 1)
    whole = terminal.text(Section(title="", grids=[Grid(header=["Number"], rows=rows)]))
    assert len(whole.splitlines()) == count + 2


def test_a_table_without_headings_has_no_line():
    grid = Grid(header=["", ""], rows=[["within 25%", "97%"]])
    assert terminal.text(Section(title="", grids=[grid])) == "within 25%   97%"

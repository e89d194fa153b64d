"""The guide to tables says what the code does."""

import re
from pathlib import Path

import pytest

from prunecast.metric import Metric
from prunecast.table import CANONICAL, synonyms

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "bring-a-table.md").read_text(encoding="utf-8")
COLUMNS = (DOCS / "reference" / "table-columns.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CANONICAL)
def test_every_synonym_is_in_the_reference(name: str) -> None:
    row = next(line for line in COLUMNS.splitlines() if line.startswith(f"| `{name}` |"))
    listed = re.findall(r"`([^`]+)`", row.rstrip("| ").rsplit("|", 1)[1])
    same, complements = synonyms(name, Metric.ERROR)
    assert listed == [*same, *(f"1 − {word}" for word in complements)]


def test_the_python_of_the_page_runs_and_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    first, last = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(first, {})
    shown, refusal = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line not in (*printed.splitlines(), "...")] == []
    assert refusal.startswith("runs.csv, line 7: density is 1.2")
    exec(last, {})

"""The page about the table says what the code does."""

import re
from pathlib import Path

import pytest

from prunecast.metric import Metric
from prunecast.table import CANONICAL, synonyms

PAGE = (Path(__file__).parents[2] / "docs" / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CANONICAL)
def test_every_synonym_is_on_the_page(name: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
    same, _, complements = row.rstrip("| ").rsplit("|", 1)[1].partition("; as 1 − value: ")
    listed = tuple(re.findall(r"\w+", same)), tuple(re.findall(r"\w+", complements))
    assert listed == synonyms(name, Metric.ERROR)


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(blocks[0], {})
    assert "Column sparsity is read as density = 1 - sparsity." in capsys.readouterr().out
    exec(blocks[-1], {})

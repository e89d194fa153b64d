"""The guide to tables says what the code does."""

import re
from pathlib import Path

import pytest

from prunecast.errors import PrunecastError, sentence
from prunecast.metric import Metric
from prunecast.table import CANONICAL, read, synonyms

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "bring-a-table.md").read_text(encoding="utf-8")
COLUMNS = (DOCS / "reference" / "table-columns.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CANONICAL)
def test_every_synonym_is_in_the_reference(name: str) -> None:
    row = next(line for line in COLUMNS.splitlines() if line.startswith(f"| `{name}` |"))
    listed = re.findall(r"`([^`]+)`", row.rstrip("| ").rsplit("|", 1)[1])
    same, complements = synonyms(name, Metric.ERROR)
    assert listed == [*same, *(f"1 − {word}" for word in complements)]


def test_the_python_of_the_page_runs_and_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, last = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(first, {})
    shown, refusal = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)
    printed = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line not in (*printed.splitlines(), "...")] == []
    rows = [f"{density},0.1" for density in (1, 0.8, 0.64, 0.5, 0.4, 1.2)]
    (tmp_path / "runs.csv").write_text("\n".join(["density,error", *rows]), encoding="utf-8")
    with pytest.raises(PrunecastError) as refused:
        read(tmp_path / "runs.csv")
    assert sentence(refused.value).replace(str(tmp_path) + "/", "") == " ".join(refusal.split())
    exec(last, {})

"""The page about the law: its Python runs, and what it shows is what the command prints."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "law.md"
GOLDEN = ROOT / "tests" / "cli" / "golden"
SHOWN = re.compile(r"<!-- golden: (\S+) -->\n```text\n(.*?)```", flags=re.DOTALL)


def test_the_python_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(block, {})


@pytest.mark.parametrize("name", ["fit", "scores", "predict"])
def test_what_the_page_shows_is_golden(name):
    """PRUNECAST_RENEW_GOLDEN=1 renews the page too."""
    golden = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    if os.environ.get("PRUNECAST_RENEW_GOLDEN"):
        text = re.sub(
            rf"(<!-- golden: {name} -->\n```text\n).*?(```)",
            lambda found: found[1] + golden + found[2],
            text,
            flags=re.DOTALL,
        )
        PAGE.write_text(text, encoding="utf-8")
    assert dict(SHOWN.findall(text))[name] == golden

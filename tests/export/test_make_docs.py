"""The Python in docs/make.md runs where a network was made."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from made_networks import Made

PAGE = Path(__file__).parents[2] / "docs" / "make.md"
BLOCKS = re.findall(r"```python\n(.*?)\n```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_what_the_page_says_runs(made: Made, number: int) -> None:
    line = [sys.executable, "-c", BLOCKS[number]]
    done = subprocess.run(
        line, cwd=made.folder.parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_page_shows_three_ways_to_load_and_the_sparse_format() -> None:
    assert len(BLOCKS) == 4

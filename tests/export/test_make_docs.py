"""The Python of the guide to export and of the reference of files runs where a network was made."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from made_networks import Made

from prunecast.choice import as_fit
from prunecast.cli.make import make
from prunecast.export.orders import choose, pattern
from prunecast.sweep import parse_plan

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "how-to" / "export.md"
BLOCKS = [
    block
    for page in (PAGE, DOCS / "reference" / "files.md")
    for block in re.findall(r"```python\n(.*?)\n```", page.read_text(encoding="utf-8"), re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_what_the_pages_say_runs(made: Made, number: int) -> None:
    line = [sys.executable, "-c", BLOCKS[number]]
    done = subprocess.run(
        line, cwd=made.folder.parent, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_pages_show_three_ways_to_load_and_the_sparse_format() -> None:
    assert len(BLOCKS) == 4


def test_the_example_with_a_plan_of_your_own_is_possible() -> None:
    """The target is met, and the plan is about what the table is about; it is not run, for want of a GPU."""
    text = PAGE.read_text(encoding="utf-8")
    (line,) = re.findall(r"^\$ (prunecast make .*--plan plan.toml.*)$", text, re.MULTILINE)
    (plan,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    asked = make.make_context("make", shlex.split(line)[2:]).params
    fit = as_fit(asked["table"])
    own = pattern(parse_plan(plan, name="plan", place="plan.toml"), fit, None)
    assert choose(fit, target_error=asked["target_error"], num_examples=own.spec.num_examples).met

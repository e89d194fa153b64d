"""The reference pages say what the code says today."""

import re

import pytest
import reference

import prunecast
from prunecast.cli import COMMANDS
from prunecast.sweep.grid import KEYS, STOP_KEYS
from prunecast.sweep.resources import KEYS as RESOURCES
from prunecast.table import CANONICAL, COUNTS


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_what_the_code_says(name):
    held = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert reference.PAGES[name]() == held, "run `python tools/reference.py`"


def test_nothing_is_left_out():
    commands, python = (
        (reference.FOLDER / name).read_text(encoding="utf-8") for name in ("commands.md", "python.md")
    )
    assert all(f"### {name}\n" in commands for name in COMMANDS)
    public = [name for name in prunecast.__all__ if name not in ("__version__", "tables")]
    assert all(f"### {name}\n" in python or f"### prunecast.{name}\n" in python for name in public)
    assert set(reference.COLUMNS) == {*CANONICAL, *COUNTS}
    assert set(reference.PLAN_KEYS) == set(KEYS)
    assert not any(
        " at 0x" in (reference.FOLDER / name).read_text(encoding="utf-8") for name in reference.PAGES
    )


@pytest.mark.parametrize(("section", "valid"), [("stop", STOP_KEYS), ("resources", RESOURCES)])
def test_every_key_that_is_listed_is_accepted(section, valid):
    """A dataclass has settings that a plan does not give."""
    page = (reference.FOLDER / "plan-keys.md").read_text(encoding="utf-8")
    part = page.split(f"## [{section}]")[1].split("## ")[0]
    assert tuple(re.findall(r"^\| `(\w+)`", part, re.MULTILINE)) == valid

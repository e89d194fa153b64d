"""Every command in the README and the docs that runs on two cores is run, page by page, as a reader would."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import research_tables

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TUTORIAL, SIGNATURES = DOCS / "tutorial.md", DOCS / "reference" / "python.md"
PAGES = sorted({ROOT / "README.md", *DOCS.rglob("*.md")} - {TUTORIAL})
"""All but the tutorial, which test_tutorial.py follows step by step."""
BLOCK = re.compile(r"(?P<before>[^\n]*)\n```(?P<kind>console|python)\n(?P<body>.*?)\n```", re.DOTALL)
LEFT_OUT = "<!-- not run:"
"""Before a block: it is left out, for the reason given."""


def name(page: Path) -> str:
    """A page as pages link to it."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path, kind: str) -> list[str]:
    """The blocks of one kind that are not marked as left out."""
    found = BLOCK.finditer("\n" + page.read_text(encoding="utf-8"))
    return [one["body"] for one in found if one["kind"] == kind and not one["before"].startswith(LEFT_OUT)]


def commands(page: Path) -> list[list[str]]:
    """The lines after a prompt that call prunecast, continued lines joined; installing is left to CI itself."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").split("\n")
    asked = [shlex.split(line[2:], comments=True) for line in lines if line.startswith("$ ")]
    return [words for words in asked if words and words[0] == "prunecast"]


def shown(page: Path) -> dict[tuple[str, ...], list[str]]:
    """What a page shows of the output of its commands; dots stand for lines left out."""
    found: dict[tuple[str, ...], list[str]] = {}
    for body in blocks(page, "console"):
        lines: list[str] = []
        for line in body.replace("\\\n", " ").split("\n"):
            if line.startswith("$ "):
                lines = found.setdefault(tuple(shlex.split(line[2:], comments=True)), [])
            elif line != "...":
                lines.append(line)
    return {words: lines for words, lines in found.items() if lines}


def started(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    script = str(Path(sys.executable).with_name("prunecast"))
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [script, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False
    )


@pytest.fixture(scope="module")
def seen() -> set[tuple[str, ...]]:
    """Commands that were run on some page already."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_run(page, tmp_path, seen):
    """What several pages say is run once, unless it reads or replaces a file that the page has made before."""
    shutil.copy(research_tables.path("cifar10-resnet20-24ep"), tmp_path / "results.csv")
    held = (
        shown(page) if page.name == "README.md" else {}
    )  # other pages show what depends on the machine, too
    assert held or page.name != "README.md"
    for words in commands(page):
        if (
            tuple(words) in seen
            and tuple(words) not in held
            and not any((tmp_path / word).exists() for word in words)
        ):
            continue
        seen.add(tuple(words))
        done = started(words, tmp_path)
        assert done.returncode == 0, f"{page.name}: {shlex.join(words)}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        printed = done.stdout.split("\n")
        assert [line for line in held.get(tuple(words), ()) if line not in printed] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page != SIGNATURES and blocks(page, "python")], ids=name
)
def test_python_runs_or_at_least_compiles(page, tmp_path):
    """What begins by importing prunecast is whole and is run; the rest are parts of a reader's own module."""
    for body in blocks(page, "python"):
        compile(body, page.name, "exec")
        if body.startswith("import prunecast"):
            line = [sys.executable, "-c", body]
            done = subprocess.run(
                line, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
            )
            assert done.returncode == 0, f"{page.name}:\n{done.stderr}"


def test_the_readme_and_the_first_page_have_commands():
    assert commands(ROOT / "README.md")
    assert commands(DOCS / "index.md")


def test_every_page_is_in_the_navigation():
    listed = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    there = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(there)

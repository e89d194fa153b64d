"""The command `find`: from a plan to the made network, its table and its page."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from click.testing import CliRunner
from find_plans import TEXT

from prunecast.cli import cli
from prunecast.table import read


def _run(folder: Path, *words: str):
    path = folder / "short.toml"
    path.write_text(TEXT)
    line = [
        "find",
        str(path),
        "--store",
        str(folder / "store"),
        "-o",
        str(folder / "found"),
        "--jobs",
        "1",
        *words,
    ]
    return CliRunner().invoke(cli, line)


def folded(page: str) -> list[str]:
    """The titles of the folded lists of the page, without those of answers."""
    return [title for title in re.findall(r"<summary>(.*?)</summary>", page) if "answers" not in title]


def test_a_budget_alone_gives_a_table_and_a_page(tmp_path: Path) -> None:
    ended = _run(tmp_path, "--training-runs", "9", "--law", "eq2", "--json")
    assert ended.exit_code == 0, ended.output
    body = json.loads(ended.stdout)
    assert (body["stop"], body["training_runs"], body["networks"]) == ("training runs", 9, [])
    assert body["metric"] == "error"
    targets = [own["target_error"] for own in body["answers"]]
    assert len(targets) == 5
    assert targets == sorted(targets)
    assert targets[-1] == pytest.approx(0.45, abs=0.01)
    assert body["training_seconds"] < body["grid_seconds"]
    assert "Next: depth" in ended.stderr
    assert len(read(tmp_path / "found" / "table.csv")) == 9
    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    assert "The search" in page
    assert "table.csv: 9 training runs" in page
    assert folded(page) == ["All decisions of the search"]


def test_find_refuses_in_a_sentence(tmp_path: Path) -> None:
    refused = _run(tmp_path)
    assert "find needs a target error or a budget" in str(refused.exception)


def test_a_network_is_made_where_no_curve_rises(tmp_path: Path) -> None:
    """One level does not show how errors rise, so the law is of no use, but trained networks meet the target."""
    plan = tmp_path / "flat.toml"
    plan.write_text(TEXT.replace("level_cap = 12", "level_cap = 1").replace("depth = [3, 5]", "depth = 3"))
    line = ["find", str(plan), "--store", str(tmp_path / "store"), "-o", str(tmp_path / "found")]
    ended = CliRunner().invoke(cli, [*line, "--jobs", "1", "--target-error", "0.7"])
    assert ended.exit_code == 0, ended.output
    assert "It was trained. No law can be fitted yet, so other networks are not considered." in ended.output
    card = json.loads((tmp_path / "found" / "network" / "card.json").read_text())
    assert card["measured"]["error"] <= 0.7


@pytest.mark.slow
def test_a_target_ends_with_the_network_made(tmp_path: Path) -> None:
    ended = _run(tmp_path, "--target-error", "25%", "--confidence", "0.9")
    assert ended.exit_code == 0, ended.output
    assert "Made: digits_cnn" in ended.output
    card = json.loads((tmp_path / "found" / "network" / "card.json").read_text())
    assert card["measured"]["error"] <= 0.25
    page = (tmp_path / "found" / "report.html").read_text(encoding="utf-8")
    measured = page[page.index("<dt>Measured error</dt>") :]
    assert f"{card['measured']['error']:.4f}" in measured[: measured.index("</div>")]
    again = _run(tmp_path, "--target-error", "25%", "--confidence", "0.9")
    assert again.exit_code == 0
    assert " · level " not in again.output


def shown(fd: int) -> str:
    """What a terminal shows of the output, without the codes that move its cursor."""
    parts = []
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        parts.append(data)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", b"".join(parts).decode())


def test_a_terminal_shows_what_is_going_on_and_every_line_fits(tmp_path: Path) -> None:
    """Also while nothing is printed: the first line is there before the first network is trained."""
    (tmp_path / "short.toml").write_text(TEXT)
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    line = [sys.executable, "-m", "prunecast", "find", "short.toml", "--training-runs", "3", "--jobs", "1"]
    environment = {**os.environ, "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(line, cwd=tmp_path, stdout=there, stderr=there, env=environment)
    os.close(there)
    text = shown(here)
    assert process.wait() == 0, text
    assert "training depth 3, width 0.5 · " in text
    assert "The search ends: the budget of 3 training runs is spent." in text
    rounds = [
        one for one in text.splitlines() if one.startswith(("  Error", "    95%", "  Next:", "    Why:"))
    ]
    assert rounds
    assert max(map(len, rounds)) <= 100

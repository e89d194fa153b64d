"""The tutorial, followed in an empty folder: its files are saved, its commands are run, its output is real."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
SAVED = re.compile(r"<!-- save: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"(?P<before>[^\n]*)\n```console\n(?P<body>.*?)\n```", re.DOTALL)
VARIES = "<!-- run: its numbers and its last digits depend on the machine -->"
MODEL_FILES = {"README.md", "card.json", "model.onnx", "model.py", "model.safetensors", "sparse.safetensors"}
SEARCH_LINES = (
    "Trained so far:",
    "The search ends:",
    "Train depth",
    "Trust in this law",
    "Made:",
    "Predicted test error",
    "It meets",
)
"""How lines of the search begin that the page explains."""


def run(line: str, folder: Path) -> str:
    """What a command of the page prints, with this environment's prunecast and python."""
    program, *words = shlex.split(line)
    script = Path(sys.executable).with_name("prunecast") if program == "prunecast" else sys.executable
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [script, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr}"
    return done.stdout + done.stderr


def steps() -> list[tuple[str, list[str], bool]]:
    """Each command, the lines that the page shows of its output, and whether these are the same everywhere."""
    found = []
    for block in CONSOLE.finditer(PAGE):
        if block["before"].startswith("<!-- not run:"):
            continue
        for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
            line, *shown = part.rstrip("\n").split("\n")
            found.append((line, [one for one in shown if one != "..."], block["before"] != VARIES))
    return found


@pytest.mark.slow
def test_a_reader_gets_from_nothing_to_a_deployed_network(tmp_path):
    for name, text in SAVED.findall(PAGE):
        (tmp_path / name).write_text(text, encoding="utf-8")
    printed = {}
    for line, shown, same in steps():
        printed[line] = run(line, tmp_path)
        lines = printed[line].splitlines()
        assert not same or [one for one in shown if one not in lines] == [], line
    search = printed["prunecast find plan.toml --target-error 0.1 --confidence 0.9"].splitlines()
    for start in SEARCH_LINES:
        assert any(one.startswith(start) for one in PAGE.splitlines()), start
        assert any(one.startswith(start) for one in search), start
    network = tmp_path / "found" / "network"
    assert {file.name for file in network.iterdir()} >= MODEL_FILES
    error = round(json.loads((network / "card.json").read_text(encoding="utf-8"))["measured"]["error"], 4)
    assert error <= 0.1
    assert printed["python deploy_torch.py"] == f"torch: error {error}\n"
    assert printed["python deploy_onnx.py"] == f"ONNX Runtime: error {error}\n"
    assert (tmp_path / "found" / "report.html").stat().st_size > 100_000


def test_what_is_deployed_does_not_import_prunecast():
    """save_images.py takes the images out of the package; the other two are what a reader deploys."""
    saved = dict(SAVED.findall(PAGE))
    assert list(saved) == ["my_model.py", "plan.toml", "save_images.py", "deploy_torch.py", "deploy_onnx.py"]
    assert not any(
        "prunecast" in saved[name] for name in ("my_model.py", "deploy_torch.py", "deploy_onnx.py")
    )


def test_every_command_of_the_tutorial_is_run():
    run_commands = [line.split()[0] for line, *_ in steps()]
    assert run_commands == ["prunecast"] * 3 + ["python"] * 3 + ["prunecast"]

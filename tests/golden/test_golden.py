"""What every command says, held in files: numbers, names and exit statuses in numbers/, sentences in texts/.

The tests know the command line alone, so they outlast any change of what lies behind it. After a change of sentences
on purpose `make renew` writes texts/ anew and leaves numbers/ as they are; `PRUNECAST_RENEW_GOLDEN=numbers` with
`pytest -n 0 tests/golden` writes both. Then read the diff.
"""

import json
import os
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from held import differences, parts

from prunecast.cli import main

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
TABLE_FILES = HERE.parents[1] / "benchmarks" / "tables"
RENEW = os.environ.get("PRUNECAST_RENEW_GOLDEN", "")
SHOWN = 12
"""How many differences a failure shows."""


READ = tomllib.loads((HERE / "cases.toml").read_text(encoding="utf-8"))
TABLES = READ.pop("tables")


def commands(group: dict[str, Any]) -> list[str]:
    """The commands of a group, for each of its tables."""
    own = group.get("tables", [""])
    own = TABLES[own] if isinstance(own, str) else own
    return [line.replace("TABLE", table) for table in own for line in group["commands"]]


def marks(name: str) -> list[pytest.MarkDecorator]:
    """A group runs in one process, another group in another."""
    together = pytest.mark.xdist_group(f"golden-{name}")
    return [together, pytest.mark.slow] if READ[name].get("slow") else [together]


GROUPS = {name: commands(group) for name, group in READ.items()}
CASES = [
    pytest.param(name, line, id=f"{name}: {line}", marks=marks(name))
    for name, lines in GROUPS.items()
    for line in lines
]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run a command in a folder of its own that holds the inputs."""
    for path in (*INPUTS.iterdir(), *TABLE_FILES.glob("*.csv")):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
    for name, value in {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1", "PRUNECAST_DATA": ""}.items():
        monkeypatch.setenv(name, value)

    def run(line):
        monkeypatch.setattr(sys, "argv", ["prunecast", *shlex.split(line)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        out, err = (text.replace(str(tmp_path), "FOLDER") for text in capsys.readouterr())
        own = (path for path in sorted(tmp_path.iterdir()) if path.is_file() and not path.is_symlink())
        return code, out, err, {path.name: path.read_text(encoding="utf-8") for path in own}

    return run


@cache
def read(kind: str, group: str) -> dict[str, object]:
    """What is held of a group."""
    path = HERE / kind / f"{group}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def renew(kind: str, group: str, line: str, body: object) -> None:
    """Hold this instead, in the order of the cases; whatever is no case any more goes."""
    assert "PYTEST_XDIST_WORKER" not in os.environ, "renew with -n 0: processes would overwrite each other"
    held = read(kind, group)
    held[line] = body
    kept = {own: held[own] for own in GROUPS[group] if own in held}
    path = HERE / kind / f"{group}.json"
    path.parent.mkdir(exist_ok=True)
    indent = 1 if kind == "texts" else None
    lines = (
        f"{json.dumps(own)}: {json.dumps(one, ensure_ascii=False, indent=indent)}"
        for own, one in kept.items()
    )
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize(("group", "line"), CASES)
def test_says_what_it_said(group, line, call):
    *before, last = line.split(" && ")
    for one in before:
        call(one)
    now = dict(zip(("numbers", "texts"), parts(*call(last)), strict=True))
    if RENEW:
        renew("texts", group, line, now["texts"])
    if RENEW == "numbers":
        renew("numbers", group, line, now["numbers"])
    wrong = {kind: differences(read(kind, group).get(line), body) for kind, body in now.items()}
    for lines in wrong.values():
        if len(lines) > SHOWN:
            lines[SHOWN:] = [f"and {len(lines) - SHOWN} more"]
    if wrong["numbers"]:
        pytest.fail(
            "\n".join(["numbers differ", *wrong["numbers"], "texts:", *wrong["texts"]]), pytrace=False
        )
    if wrong["texts"]:
        pytest.fail("\n".join(["numbers unchanged, texts differ", *wrong["texts"]]), pytrace=False)


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_nothing_is_left_over(kind):
    assert {path.stem for path in (HERE / kind).iterdir()} == set(GROUPS)
    for group, lines in GROUPS.items():
        assert set(read(kind, group)) == set(lines)

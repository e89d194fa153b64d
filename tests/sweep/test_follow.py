"""Programs that follow a sweep: JSON lines, and a function that is called with each event."""

import importlib.util
import json
import os
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner
from small import BRIEF, parsed, table

from prunecast.cli import cli
from prunecast.cli.engine import run as run_command
from prunecast.errors import PrunecastError
from prunecast.sweep import (
    COLUMNS,
    Failed,
    LeftOut,
    Progress,
    Session,
    as_csv,
    event_as_json,
    executor_for,
    rows,
    run_to_end,
)
from prunecast.sweep.__main__ import main

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "train-a-grid.md"
SMALL = BRIEF.replace("replicates = 2", "replicates = 1")
"""Two chains of three levels."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "brief.toml").write_text(SMALL)
    return tmp_path


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_level_is_a_line_with_the_row_of_the_table(folder):
    asked = ["run", "brief.toml", "--jobs", "1", "--store", "store", "--json-lines", "events.jsonl"]
    shown = CliRunner().invoke(cli, asked, catch_exceptions=False).output
    assert "· level" in shown
    started, *levels, finished = found = lines(folder / "events.jsonl")
    assert all(list(line)[:2] == ["event", "time"] and line["plan"] == "brief" for line in found)
    assert (started["event"], started["chains"], started["levels_done"]) == ("started", 2, 0)
    assert (finished["event"], finished["chains_done"], finished["levels_done"]) == ("finished", 2, 6)
    assert [line["event"] for line in levels] == ["level"] * 6
    expected = rows(parsed(SMALL), folder / "store")
    assert [{name: line[name] for name in COLUMNS} for line in levels] == expected
    assert [line["ended"] for line in levels] == ["", "", "level cap"] * 2
    assert [line["chain"] for line in levels] == [1, 1, 1, 2, 2, 2]
    CliRunner().invoke(cli, asked, catch_exceptions=False)
    again = lines(folder / "events.jsonl")
    assert (again[:8], [line["event"] for line in again[8:]]) == (found, ["started", "finished"])


def test_a_table_is_written_although_the_last_line_for_programs_is_not(folder):
    """The disk is full once the last level has ended."""
    plan, output, said = parsed(SMALL), folder / "t.csv", []
    session = Session(
        plan,
        folder / "store",
        lambda text, *, err=False: said.append(text),
        output=output,
        json_lines=folder / "events.jsonl",
    )

    def run():
        with session, Path("/dev/full").open("wb") as full:
            session.run(executor_for("cpu", 1), lambda event: None)
            os.dup2(full.fileno(), session._lines._descriptor)

    with pytest.raises(PrunecastError, match=r"events\.jsonl cannot be written"):
        run()
    assert said == [f"6 rows in {output}"]
    assert output.read_text() == as_csv(rows(plan, folder / "store"))


def test_on_standard_output_there_is_nothing_else(folder, capfd):
    done = CliRunner().invoke(run_command, ["brief.toml", "--jobs", "1", "--json-lines", "-", "-o", "t.csv"])
    assert done.exit_code == 0, done.output
    assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == [
        *("started", *["level"] * 6, "finished")
    ]
    assert "6 rows in t.csv" in done.stderr
    capfd.readouterr()
    assert main(["brief.toml", "--jobs", "1", "--json-lines", "-", "-o", "t.csv"]) == 0
    said = capfd.readouterr()
    assert [json.loads(line)["event"] for line in said.out.splitlines()] == ["started", "finished"]
    assert "6 rows in t.csv" in said.err


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_trained(folder):
    for path, why in (("none/events.jsonl", "there is no folder"), ("x" * 300, "File name too long")):
        done = CliRunner().invoke(run_command, ["brief.toml", "--json-lines", path])
        assert why in str(done.exception)
    assert [path.name for path in folder.iterdir()] == ["brief.toml"]


def test_a_full_disk_is_one_sentence(folder):
    done = CliRunner().invoke(run_command, ["brief.toml", "--jobs", "1", "--json-lines", "/dev/full"])
    assert "/dev/full cannot be written: No space left on device. Nothing finished is lost" in str(
        done.exception
    )


def test_failures_and_what_is_left_out_are_plain_values(folder):
    def refuse(event):
        raise KeyboardInterrupt

    plan = parsed(SMALL)
    with pytest.raises(KeyboardInterrupt):
        run_to_end(plan, folder / "store", on_event=refuse)
    assert len(table(plan, folder / "store")) == 1
    chain = plan.chains[0]
    failed = event_as_json(plan, Failed(number=1, chain=chain, error="why", traceback="where"))
    assert (failed["event"], failed["message"], failed["traceback"], failed["chain"]) == (
        "failed",
        "why",
        "where",
        1,
    )
    reason = {"axis": "depth", "size": 5, "error": 0.3, "best": 3, "best_error": 0.2, "tolerance": 0.01}
    from prunecast.spec import ErrorRise

    left_out = event_as_json(plan, LeftOut(number=1, chain=chain, reason=ErrorRise(**reason)))
    assert (left_out["event"], left_out["reason"], left_out["depth"]) == ("left_out", reason, 3)
    json.dumps([failed, left_out])


def test_a_function_is_called_with_each_new_event(folder):
    plan, told = parsed(SMALL), []
    for _ in range(2):
        progress = run_to_end(plan, folder / "store", on_event=told.append)
        assert (len(told), progress.levels_done, progress.failed) == (6, 6, [])
    assert all(isinstance(event, Progress) for event in told)


class Recorder(ModuleType):
    """Stands in for TensorBoard or MLflow if they are not installed: it keeps what it is given."""

    def __init__(self, name):
        super().__init__(name)
        self.kept = []

    def SummaryWriter(self, log_dir):  # noqa: N802
        return self

    def add_scalars(self, main_tag, tag_scalar_dict, global_step):
        self.kept.append((main_tag, tag_scalar_dict, global_step))

    @contextmanager
    def start_run(self, run_id=None, *, run_name=None):
        self.run = run_id or f"id of {run_name}"
        yield SimpleNamespace(info=SimpleNamespace(run_id=self.run))

    def log_metric(self, key, value, step=None):
        self.kept.append((self.run, {key: value}, step))


@pytest.mark.parametrize(
    ("package", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow")]
)
def test_the_code_on_the_page_runs(folder, monkeypatch, package, module):
    """Use the real package if it is installed."""
    (code,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if f"{module} import" in block or f"import {module}" in block
    ]
    assert len([line for line in code.splitlines() if line]) <= 10
    recorder = Recorder(module)
    missing = importlib.util.find_spec(package) is None
    if missing:
        monkeypatch.setitem(sys.modules, module, recorder)
    (folder / "plan.toml").write_text(SMALL)
    exec(code, {})
    assert len(table(parsed(SMALL), folder / "store")) == 6
    if missing:
        assert [step for *_, step in recorder.kept] == [0, 1, 2] * 2
        assert len({chain for chain, *_ in recorder.kept}) == 2

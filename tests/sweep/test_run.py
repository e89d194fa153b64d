import csv
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner
from fatal_family import raising
from small import BRIEF, numbers, parsed

from prunecast.cli.engine import export as export_command
from prunecast.cli.engine import run as run_command
from prunecast.errors import PrunecastError
from prunecast.sweep import COLUMNS, as_csv, event_line, export, rows, run_plan, stop_on
from prunecast.sweep.__main__ import STOP_SIGNALS, main


@pytest.fixture
def plan_file(tmp_path):
    path = tmp_path / "brief.toml"
    path.write_text(BRIEF)
    return path


def test_a_sweep_from_plan_to_table(tmp_path):
    plan = parsed(BRIEF, tmp_path)
    store = tmp_path / "store"
    seen = list(run_plan(plan, store))
    assert len(seen) == 4 * 3
    assert [progress.ended for progress in seen] == ["", "", "level cap"] * 4
    assert "chain 2/4 depth 3 width 0.5 n 100 replicate 1 · level  0 density 1.0000" in event_line(
        plan, seen[3]
    )
    assert export(plan, store, tmp_path / "t.csv") == 12
    with (tmp_path / "t.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == COLUMNS
    assert {(row["family"], row["dataset"], row["method"], row["recipe"]) for row in table} == {
        ("digits_cnn", "digits", "imp", "brief")
    }
    for row in table:
        assert float(row["density"]) == int(row["nonzero"]) / int(row["weights"])
        assert 0 < float(row["error"]) < 1
        assert row["validation_error"] == ""
        assert row["status"] == "ok"


def test_a_stopped_sweep_goes_on_and_shares_its_chains(tmp_path):
    plan = parsed(BRIEF, tmp_path)
    unbroken, store = tmp_path / "unbroken", tmp_path / "store"
    list(run_plan(plan, unbroken))
    running = run_plan(plan, store)
    for _ in range(5):
        next(running)
    running.close()
    assert len(rows(plan, store)) == 5
    small = parsed(BRIEF.replace("[100, 200]", "200").replace('name = "brief"', 'name = "other"'), tmp_path)
    list(run_plan(small, store))
    assert len(rows(small, store)) == 6
    assert {row["recipe"] for row in rows(small, store)} == {"other"}
    list(run_plan(plan, store))
    assert numbers(rows(plan, store)) == numbers(rows(plan, unbroken))


def test_the_table_reads_back(tmp_path):
    from prunecast.table import read

    plan = parsed(BRIEF, tmp_path)
    list(run_plan(plan, tmp_path))
    export(plan, tmp_path, tmp_path / "t.csv")
    table = read(tmp_path / "t.csv")
    assert table is not None


def test_device_mistakes_are_named(tmp_path):
    plan = parsed(BRIEF, tmp_path)
    with pytest.raises(PrunecastError, match="no device 'gpu'; give cpu or cuda"):
        next(run_plan(plan, tmp_path, device="gpu"))


def test_an_unfinished_plan_has_a_table_too(tmp_path):
    assert as_csv(rows(parsed(BRIEF, tmp_path), tmp_path)) == ",".join(COLUMNS) + "\n"


def test_commands(tmp_path, plan_file):
    out, store = tmp_path / "t.csv", tmp_path / "store"
    arguments = [str(plan_file), "--store", str(store), "-o", str(out)]
    result = CliRunner().invoke(run_command, arguments)
    assert result.exit_code == 0, result.output
    assert "level cap" in result.output
    assert f"12 rows in {out}" in result.output
    first = out.read_text()
    result = CliRunner().invoke(export_command, arguments)
    assert result.exit_code == 0
    assert out.read_text() == first


BARE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("scipy", "pandas", "click", "rich", "safetensors", "PIL"):
            raise ImportError(name + " is not on a bare machine")
sys.meta_path.insert(0, Refuse())
from prunecast.sweep.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_bare_machine_needs_torch_and_numpy_alone(tmp_path, plan_file):
    out = tmp_path / "t.csv"
    arguments = [str(plan_file), "--store", str(tmp_path / "store"), "-o", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 13


@pytest.fixture
def restored(monkeypatch):
    """Restore signal handlers and the import path."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    yield
    for number, handler in zip(STOP_SIGNALS, before, strict=True):
        signal.signal(number, handler)


def test_a_bare_machine_is_told_what_the_command_tells(tmp_path, plan_file, restored, capsys):
    """Start, end, failures, edits and damage; a family may be next to its plan."""
    store, out = tmp_path / "store", tmp_path / "t.csv"
    (tmp_path / "family_next_to_a_plan.py").write_text(raising("too wide"))
    own = BRIEF.replace("digits_cnn", "family_next_to_a_plan:small").replace("[100, 200]", "100")
    plan_file.write_text(own)
    arguments = [str(plan_file), "--store", str(store), "--jobs", "1", "-o", str(out)]
    assert main(arguments) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"brief: 0 of 2 chains are finished, 0 levels are in {store}."
    assert said[-2].startswith("2 chains finished; ")
    assert said[-1] == f"6 rows in {out}"
    plan_file.write_text(own.replace("width = 0.5", "width = [0.5, 2]"))
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert told.out.startswith("The plan was edited since its last run: 2 chains are new.\n")
    assert "2 chains finished, 2 failed; " in told.out
    assert told.err.startswith("- chain 3 failed: ValueError: too wide\n")
    (record, *_) = store.glob("chains/*/records.json")
    record.write_text("{")
    plan_file.write_text(own)
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "3 rows in " in told.out
    assert "Not in the table, chain " in told.err


def test_mistakes_are_one_sentence_and_exit_with_two(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "prunecast.sweep", "missing.toml"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: there is no plan missing.toml")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("seconds", [1, 2])
def test_a_stop_that_falls_due_while_torch_is_imported_is_not_lost(tmp_path, plan_file, seconds):
    plan_file.write_text(BRIEF.replace("epochs = 2", "epochs = 100000"))
    command = [sys.executable, "-m", "prunecast.sweep", str(plan_file), "--store", str(tmp_path / "store")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, "--jobs", "1", "--seconds", str(seconds)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=120,
    )
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr


def test_a_stop_is_not_disturbed_by_the_next_signal():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    try:
        stop_on(dict.fromkeys(STOP_SIGNALS, KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGALRM)
        assert {signal.getsignal(number) for number in STOP_SIGNALS} == {signal.SIG_IGN}
    finally:
        for number, handler in zip(STOP_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def test_importing_the_commands_imports_nothing_heavy():
    code = "import sys, prunecast.cli.engine; sys.exit(any(m in sys.modules for m in ('torch', 'numpy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

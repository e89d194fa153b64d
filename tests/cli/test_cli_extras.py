"""A plain installation has neither torch nor anything that draws: what is missing is named with its extra."""

import os
import subprocess
import sys

import pytest
import research_tables

REFUSING = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {module!r}:
            raise ModuleNotFoundError("No module named " + repr(name), name=name)
sys.meta_path.insert(0, Refuse())
from prunecast.cli import main
sys.argv = ["prunecast", *{arguments!r}]
main()
"""
MEASURED = [str(research_tables.path("cifar10-resnet20-24ep")), "--where", "num_examples=50000"]
CASES = [
    ("torch", ["plan"], "train"),
    ("torch", ["run", "digits"], "train"),
    ("torch", ["status", "digits"], "train"),
    ("torch", ["make", *MEASURED, "--target-error", "0.2", "--plan", "digits", "-o", "made"], "train"),
    ("torch", ["demo"], "train,report"),
    ("jinja2", ["report", *MEASURED, "--no-studies"], "report"),
    ("vl_convert", ["report", *MEASURED, "--no-studies"], "report"),
    ("vl_convert", ["figures", *MEASURED, "--only", "forms"], "report"),
    ("pyarrow", ["fit", "runs.parquet"], "parquet"),
]


@pytest.mark.parametrize(("module", "arguments", "extra"), CASES, ids=lambda one: str(one)[:20])
def test_a_missing_extra_is_named(tmp_path, module, arguments, extra):
    (tmp_path / "runs.parquet").write_bytes(b"PAR1" * 3)
    code = REFUSING.format(module=module, arguments=arguments)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'prunecast[{extra}]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_law_half_needs_no_extra(tmp_path):
    code = REFUSING.format(module="torch", arguments=["choose", *MEASURED, "--target-error", "0.2"])
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0


def test_the_package_runs_as_a_module(prunecast):
    line = [sys.executable, "-m", "prunecast", "tables", "cifar10-resnet", "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == prunecast("tables", "cifar10-resnet", "--json").stdout


def test_ctrl_c_while_the_command_line_is_imported_is_one_line(tmp_path):
    """A click that is heard in the middle of its import, in place of the installed one."""
    heard = "signal.signal(signal.SIGINT, signal.default_int_handler)"  # shells ignore it in the background
    (tmp_path / "click.py").write_text(f"import signal\n{heard}\nsignal.raise_signal(signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "prunecast", "tables"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (130, "prunecast: stopped.\n")

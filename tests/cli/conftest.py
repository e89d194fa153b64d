import subprocess
import sys
from pathlib import Path

import pytest
import research_tables

from prunecast.cli import main

SCRIPT = Path(sys.executable).with_name("prunecast")
AT_50000 = (str(research_tables.path("cifar10-resnet20-24ep")), "--where", "num_examples=50000")


@pytest.fixture(scope="session")
def prunecast():
    """Run the installed command as a shell would."""

    def run(*arguments, cwd=None, env=None):
        return subprocess.run(
            [SCRIPT, *map(str, arguments)], capture_output=True, text=True, timeout=120, cwd=cwd, env=env
        )

    return run


@pytest.fixture
def called(capsys, monkeypatch):
    """Call what the installed command calls in this process, where only words count: a second less each."""

    def run(*arguments, cwd="."):
        monkeypatch.setattr(sys, "argv", ["prunecast", *map(str, arguments)])
        monkeypatch.chdir(cwd)
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def law_file(prunecast, tmp_path_factory):
    """The law of the shipped table at 50,000 examples."""
    path = tmp_path_factory.mktemp("law") / "law.json"
    done = prunecast("fit", *AT_50000, "-o", path)
    assert done.returncode == 0, done.stderr
    return path

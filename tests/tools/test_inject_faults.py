"""A short run of the faults at system calls; `make faults` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest
from inject_faults import is_possible

TOOL = Path(__file__).parents[2] / "tools" / "inject_faults.py"


@pytest.mark.slow
@pytest.mark.skipif(not is_possible(), reason="strace is not installed here, or may not trace")
def test_a_run_that_fails_or_is_killed_anywhere_goes_on_with_the_same_table():
    command = [
        sys.executable,
        str(TOOL),
        "--cases",
        "25",
        "--seed",
        "1",
    ]  # alone: it forks, which threads do not survive
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 findings" in done.stdout
    assert "killed" in done.stdout
    assert "stopped with a sentence" in done.stdout

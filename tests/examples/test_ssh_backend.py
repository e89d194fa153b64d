"""The backend that the documentation shows, run by the real command with a shell in place of ssh."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from small import BRIEF, PRUNECAST, parsed, table

from prunecast.sweep import chain_statuses, run_plan

HERE = Path(__file__).parent
SSH = """#!/bin/sh
test "$1" = down && { echo "ssh: connect to host down: no route" >&2; exit 255; }
shift
exec sh -c "$*"
"""


@pytest.fixture
def command(tmp_path):
    """The command in a folder of its own, and the environment in which it finds the backend and `ssh`."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    (tmp_path / "brief.toml").write_text(BRIEF)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
    }

    def started(hosts, store):
        options = ["run", "brief.toml", "--on", "ssh_backend:Hosts", "--store", str(store)]
        return subprocess.Popen(
            [*PRUNECAST, *options],
            cwd=tmp_path,
            env={**environment, "PRUNECAST_HOSTS": hosts},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return started


def holders(store):
    return [
        own.holder.pid
        for own in chain_statuses(parsed(BRIEF), store)
        if own.state == "running" and own.holder
    ]


@pytest.mark.slow
def test_a_backend_of_ones_own_bears_a_kill_and_gives_the_table_of_one_process(tmp_path, command):
    running = command("one,two", tmp_path / "store")
    while not (pids := holders(tmp_path / "store")):
        assert running.poll() is None, running.communicate()
        time.sleep(0.01)
    os.kill(pids[0], signal.SIGKILL)
    said, complaint = running.communicate()
    assert (running.returncode, complaint) == (0, "")
    assert said.count("· level ") == 12
    list(run_plan(parsed(BRIEF), tmp_path / "unbroken"))
    assert table(parsed(BRIEF), tmp_path / "store") == table(parsed(BRIEF), tmp_path / "unbroken")


@pytest.mark.slow
def test_its_workers_stop_at_ctrl_c(tmp_path, command):
    running = command("one,two", tmp_path / "store")
    assert any("· level " in line for line in running.stdout)
    pids = holders(tmp_path / "store")
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode == 130
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not holders(tmp_path / "store")


def test_what_a_host_refuses_is_the_commands_sentence(tmp_path, command):
    running = command("one,down", tmp_path / "store")
    assert running.communicate()[1].strip() == "prunecast: down: ssh: connect to host down: no route."
    assert running.returncode == 2

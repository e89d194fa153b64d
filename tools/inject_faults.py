"""Fail or kill a run at every system call that touches its store, run it again, and compare the tables.

    python tools/inject_faults.py --cases 1000 --seed 0

strace fails one call (full disk, failing disk, read-only, no permission) or kills the process there. The command must
end with a status of its own and without a traceback, and the same command again with the table of an unbroken run.
"""

import csv
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import torch
from fuzzing import Finding, interruptible, main

from prunecast.cli import main as command
from prunecast.sweep import parse_plan, run_plan

PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = 0.25
num_examples = 50
level_cap = 2
[recipe]
preset = "digits"
epochs = 2
rewind = 0.5
batch_size = 25
checkpoint_steps = 1
[stop]
disconnected = false
at_chance = 0
"""
FAULTS = {
    "openat": ("ENOSPC", "EIO", "EROFS", "EACCES", "EMFILE"),
    "write": ("ENOSPC", "EIO", "EDQUOT"),
    "read": ("EIO",),
    "fsync": ("EIO", "ENOSPC"),
    "rename": ("EIO", "EROFS", "ENOSPC"),
    "mkdir": ("ENOSPC", "EROFS", "EACCES"),
    "unlink": ("EIO", "EROFS"),
    "flock": ("ENOLCK", "EIO"),
    "newfstatat": ("EIO", "EACCES"),
    "getdents64": ("EIO",),
}
"""Errors of each call; at each of them the process is killed, too."""
KILL = "SIGKILL"
SECONDS = 60
"""No run may take longer."""
OWN_STATUS = (0, 1, 2)
UNTIMED = ("level", "density", "error", "loss", "nonzero", "spec")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """The nth of a call fails with an error, or the process is killed at it."""

    call: str
    number: int
    error: str

    def __str__(self) -> str:
        how = f"signal={KILL}" if self.error == KILL else f"error={self.error}"
        return f"inject={self.call}:{how}:when={self.number}"


def is_possible() -> bool:
    """Whether strace is here and may trace."""
    if shutil.which("strace") is None:
        return False
    return (
        subprocess.run(
            ["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False
        ).returncode
        == 0
    )


class Runs:
    """The command in forks of this process, which has imported everything, with or without a fault."""

    def __init__(self, folder: Path) -> None:
        """Load what a run needs, train once without a fault, and find the calls that touch the folder."""
        self.place, self.trace, self.said = folder / "case", folder / "trace", folder / "said"
        self.plan = folder / "plan.toml"
        self.plan.write_text(PLAN, encoding="utf-8")
        torch.set_num_threads(1)
        list(run_plan(parse_plan(PLAN, name="plan"), folder / "first"))
        self.clear()
        self.run(["-y", "-e", f"trace={','.join(FAULTS)}"])
        self.unbroken = self.table()
        self.calls = list(self._touching())

    def clear(self) -> None:
        """Begin anew."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()

    def table(self) -> list[list[str]]:
        """The columns of the table that do not depend on the time."""
        with (self.place / "table.csv").open(encoding="utf-8") as file:
            return [[row[name] for name in UNTIMED] for row in csv.DictReader(file)]

    def _touching(self) -> list[tuple[str, int]]:
        """Each call that touches the folder, with its number among calls of its name."""
        seen: Counter[str] = Counter()
        found = []
        for line in self.trace.read_text(encoding="utf-8", errors="replace").splitlines():
            called = re.match(r"(\w+)\(", line)
            if called:
                seen[called[1]] += 1
                if str(self.place) in line:
                    found.append((called[1], seen[called[1]]))
        return found

    def faults(self) -> list[Fault]:
        """Every error and a kill at every call."""
        return [
            Fault(call=call, number=number, error=error)
            for call, number in self.calls
            for error in (*FAULTS[call], KILL)
        ]

    def run(self, tracing: list[str] | None = None) -> int | None:
        """The exit status of the command, negative where it was killed; None where it takes too long."""
        started, begin = os.pipe()
        process = os.fork()
        if process == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # meant for the parent
            os.close(begin)
            self._child(started)
        os.close(started)
        tracer = self._traced(process, tracing) if tracing else None
        os.write(begin, b"x")
        os.close(begin)
        status = _ended(process)
        if tracer is not None:
            tracer.wait()
        return status

    def _traced(self, process: int, tracing: list[str]) -> "subprocess.Popen[bytes]":
        asked = ["strace", "-p", str(process), "-o", str(self.trace), *tracing]
        tracer = subprocess.Popen(asked, stderr=subprocess.PIPE)
        assert tracer.stderr is not None
        tracer.stderr.readline()  # attached
        return tracer

    def _child(self, started: int) -> NoReturn:
        status = 70
        try:
            ctypes.CDLL(None).prctl(
                0x59616D61, ctypes.c_ulong(-1 & (2**64 - 1))
            )  # let a sibling trace this process
            os.read(started, 1)
            output = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            sys.argv = [
                "prunecast",
                "run",
                str(self.plan),
                "--store",
                str(self.place / "store"),
                "--jobs",
                "1",
            ]
            sys.argv += ["-o", str(self.place / "table.csv")]
            command()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 70
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)


def _ended(process: int) -> int | None:
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


def problem_of(runs: Runs, fault: Fault) -> tuple[str, str]:
    """How a run with a fault ended, and what is wrong with that or with the run after it; empty if nothing is."""
    runs.clear()
    status = runs.run(["-e", f"trace={fault.call}", "-e", str(fault)])
    said = runs.said.read_text(encoding="utf-8", errors="replace")
    outcome = {None: "took too long", 0: "went on", -signal.SIGKILL: "killed"}.get(
        status, "stopped with a sentence"
    )
    if status is None:
        return outcome, "took too long"
    if "Traceback" in said or status not in (*OWN_STATUS, -signal.SIGKILL):
        return outcome, f"status {status}\n{said}"
    again = runs.run()
    said = runs.said.read_text(encoding="utf-8", errors="replace")
    if again != 0:
        return outcome, f"the next run: status {again}\n{said}"
    return outcome, "" if runs.table() == runs.unbroken else "another table"


def fuzz(cases: int, seed: int, folder: Path) -> tuple[Counter[str], list[Finding]]:
    """Inject so many of the faults, chosen at random, or all; count how they end, and return what may not happen."""
    runs = Runs(folder)
    faults = runs.faults()
    random.Random(seed).shuffle(faults)
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    for number, fault in interruptible(enumerate(faults[:cases])):
        outcome, problem = problem_of(runs, fault)
        counts[outcome] += 1
        if problem:
            findings.append(Finding(case=number, change=str(fault), problem=problem))
    print(f"{len(faults):,} faults at {len(runs.calls):,} calls")
    return counts, findings


if __name__ == "__main__":
    if not is_possible():
        sys.exit("strace is not installed here, or may not trace; install it, and allow ptrace.")
    sys.exit(main(fuzz, __doc__ or ""))

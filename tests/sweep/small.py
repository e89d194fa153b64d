"""Tiny sweeps on digits, and drivers in processes that tests kill."""

import sys
from functools import partial
from pathlib import Path

from prunecast.sweep import Processes, drive, parse_plan, rows, run_plan

BRIEF = """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = 0.5
num_examples = [100, 200]
replicates = 2
level_cap = 2
[recipe]
preset = "digits"
epochs = 2
name = "brief"
[stop]
at_chance = 0
"""
TINY = """
[recipe]
preset = "digits"
epochs = 2
rewind = 0.5
batch_size = 25
checkpoint_steps = 1
name = "tiny"
[stop]
disconnected = false
at_chance = 0
"""
MANY = (
    """
family = "digits_cnn"
dataset = "digits"
depth = [3, 4, 5]
width = [0.5, 1]
num_examples = [50, 75]
replicates = 2
level_cap = 16
"""
    + TINY
)

HEARS_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
PRUNECAST = [sys.executable, "-u", "-c", f"{HEARS_CTRL_C}; from prunecast.cli import main; main()"]
"""The command; tests that run in the background of a shell would have it deaf to Ctrl-C."""


def parsed(text, folder=Path()):
    return parse_plan(text, name="brief", place="brief.toml", folder=folder)


def on_processes(*devices, packed=False):
    """An executor with worker processes, two unless devices are given."""
    return partial(drive, backend=partial(Processes, devices or ("cpu", "cpu"), packed=packed))


def numbers(table):
    """The table without the times, which differ from run to run."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


def table(plan, store):
    return numbers(rows(plan, store))


def drive_and_tell(text, store, pipe):
    """A driver with two workers; it reports its start and the first level."""
    pipe.send("begun")
    for event in run_plan(parsed(text), store, executor=on_processes()):
        if pipe is not None:
            pipe.send(type(event).__name__)
            pipe = None

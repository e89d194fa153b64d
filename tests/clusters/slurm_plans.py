"""Small plans for a Slurm cluster, and their drivers."""

import os
from functools import partial
from pathlib import Path

from small import TINY

from prunecast.clusters.slurm import Pace, SlurmBackend
from prunecast.sweep import Resources, drive, parse_plan, rows, run_plan

QUICK = Pace(least=0.5, most=1.0)
LONG = (
    """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = [1, 2]
num_examples = [75, 100]
replicates = 1
level_cap = 37
"""
    + TINY
)
SHORT = LONG.replace("level_cap = 37", "level_cap = 9")
EMPTY = LONG.replace("level_cap = 37", "level_cap = 0").replace("epochs = 2", "epochs = 1")


def planned(text, folder=Path()):
    return parse_plan(text, name="plan", place="plan.toml", folder=folder)


def table(text, store):
    """The table without the times, which differ from run to run."""
    return [{**row, "seconds": 0} for row in rows(planned(text), store)]


def executor(at_once=6, minutes=30, **others):
    backend = partial(SlurmBackend, pace=QUICK, **others)
    return partial(drive, backend=backend, resources=Resources(at_once=at_once, minutes=minutes))


def drive_and_tell(text, store, configuration, pipe):
    """A driver in its own process, which reports the first level."""
    os.environ["SLURM_CONF"] = configuration
    for event in run_plan(planned(text), store, executor=executor()):
        if pipe is not None:
            pipe.send(type(event).__name__)
            pipe = None

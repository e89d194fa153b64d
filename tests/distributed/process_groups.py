"""Small chains for process groups, and functions that inspect their processes."""

import dataclasses
import os
import time
from pathlib import Path

from prunecast import data, spec
from prunecast.distributed import GroupTask, run_group
from prunecast.errors import BusyError
from prunecast.pruning import StopRules, follow_chain, run_chain
from prunecast.sweep import parse_plan

CHAIN = spec.ChainSpec(
    family="digits_cnn",
    dataset="digits",
    recipe=spec.recipe("digits").changed(
        {"epochs": 6, "rewind": 1, "batch_size": 25, "checkpoint_steps": 1, "augmentation": "flip-shift"}
    ),
    method=spec.method("imp"),
    depth=3,
    width=0.5,
    num_examples=100,
)
RULES = StopRules(level_cap=3, at_chance=0)
PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = 0.5
num_examples = 100
level_cap = 2
[recipe]
preset = "digits"
epochs = 2
name = "brief"
[stop]
at_chance = 0
[[grid]]
replicates = [0]
[[grid]]
replicates = [1]
devices = 2
"""


def task(store, **changes):
    whole = GroupTask(
        spec=CHAIN, store=store, root=None, rules=RULES, keep_weights=False, device="cpu", size=2
    )
    return dataclasses.replace(whole, **changes)


def plan(text=PLAN):
    return parse_plan(text, name="process_groups", place="process_groups.toml", folder=Path())


def unbroken(group, store):
    """A whole chain, trained by a member of a group or by one process."""
    if group.rank:
        follow_chain(CHAIN, store, data.load("digits"), group)
    return list(run_chain(CHAIN, store, lambda: data.load("digits"), rules=RULES, group=group))


def members(starter):
    """The processes of a group by rank, found among the children of its starter."""
    children = Path(f"/proc/{starter}/task").glob("*/children")
    found = sorted(int(pid) for file in children for pid in file.read_text().split())
    return [pid for pid in found if b"prunecast.distributed.member" in _command(pid)]


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def gone(pid):
    """Whether a process has ended, waited for or not."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def free(folder):
    """Whether no process holds a chain; a thread of a dying process may hold it a moment longer."""
    try:
        with folder.locked():
            return True
    except BusyError:
        return False


def until(condition, seconds=300):
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def start_and_tell(store, pipe):
    """A starter in its own process, which may be killed."""
    for record in run_group(task(store)):
        pipe.send((os.getpid(), record.level))

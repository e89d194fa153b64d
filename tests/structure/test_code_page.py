"""The page about the code names the calls that really lead to an optimizer step."""

import re
from functools import partial
from pathlib import Path

import pytest
import stack_probe
from click.testing import CliRunner

from prunecast.cli import cli
from prunecast.sweep import read_plan, run_plan, work

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "code.md"
PLAN = """
family = "digits_cnn"
dataset = "digits"
depth = 3
width = 0.25
num_examples = 32
replicates = 2
level_cap = 0
recipe = {preset = "digits", epochs = 1, optimizer = "stack_probe:PROBE"}
"""


def documented(first, last):
    """The names in backticks between two texts of the page."""
    text = PAGE.read_text(encoding="utf-8").partition("From `prunecast run` to the optimizer step")[2]
    found = re.findall(r"`([\w.]+)`", first + text.partition(first)[2].partition(last)[0] + last)
    return [name.rpartition(".")[2] for name in found]


@pytest.fixture
def plan(tmp_path):
    stack_probe.CALLS.clear()
    stack_probe.MAIN.clear()
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def called(first, calls=stack_probe.CALLS):
    names = [name.rpartition(".")[2] for name in calls]
    return names[names.index(first) :]


def test_the_way_from_the_command_to_the_step(plan):
    store = str(plan.parent / "store")
    CliRunner().invoke(cli, ["run", str(plan), "--jobs", "1", "--store", store], catch_exceptions=False)
    way = called("run")
    assert way == documented("`cli.engine.run`", "`optimizer_step`")
    assert "there are eight calls" in PAGE.read_text(encoding="utf-8")
    assert len(way) - 1 == 8


def test_the_way_in_the_thread_of_the_device(plan):
    store = plan.parent / "store"
    executor = partial(work, device="cpu", packed=True)
    assert all(event.record.status == "ok" for event in run_plan(read_plan(plan), store, executor=executor))
    before = documented("`run_chains`, `work` and", "starts")
    after = documented("`Scheduler.run`", "`optimizer_step`")
    assert called("run_chains", stack_probe.MAIN)[: len(before)] == before
    assert called("run") == after
    assert "In a fleet there are ten" in PAGE.read_text(encoding="utf-8")
    assert len([*before, *after]) == 10

"""Layers that lose their last weight are reported: in the record, in the line of the level, and in `status`."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from prunecast.cli import cli
from prunecast.families import NotPrunable
from prunecast.pruning import chain_folder
from prunecast.sweep import event_line, read_plan, run_plan

PLAN = """
family = "own_networks:weak_branch"
dataset = "digits"
depth = 2
width = 1
num_examples = 100
level_cap = 3
recipe = {preset = "digits", name = "brief", epochs = 1, weight_decay = 0.0}
[stop]
at_chance = 0
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dead")
    (folder / "weak.toml").write_text(PLAN)
    plan = read_plan(folder / "weak.toml")
    return folder, plan, list(run_plan(plan, folder / "store"))


def test_a_record_names_the_layers_without_weights(swept):
    folder, plan, events = swept
    assert [event.record.dead_layers for event in events[:1]] == [()]
    assert events[-1].record.dead_layers == ("branch.weight",)
    stored = chain_folder(folder / "store", plan.chains[0].spec).records()
    assert [record.dead_layers for record in stored] == [event.record.dead_layers for event in events]


def test_the_line_of_a_level_and_the_status_say_so(swept):
    folder, plan, events = swept
    assert "no weight" not in event_line(plan, events[0])
    assert "· no weight is left in branch.weight" in event_line(plan, events[-1])
    first = next(event.record.level for event in events if event.record.dead_layers)
    asked = ["status", str(folder / "weak.toml"), "--store", str(folder / "store")]
    said = CliRunner().invoke(cli, asked, catch_exceptions=False).output
    assert f"chain 1: from level {first} on no weight is left in branch.weight" in " ".join(said.split())


def test_the_first_line_of_a_chain_lists_what_is_never_pruned(swept):
    _, plan, (first, second, *_) = swept
    tensors = tuple(NotPrunable(name=f"table{number}", parameters=10 * number) for number in range(1, 6))
    record = replace(first.record, not_prunable=tensors, parameters=1000)
    said = "never pruned: table5 (5.0%), table4 (4.0%), table3 (3.0%) and 2 more (3.0%) of the parameters"
    assert said in event_line(plan, replace(first, record=record))
    assert "never pruned" not in event_line(plan, second)

"""Layers that lose their last weight are reported: in the record, in the line of the level, and in `status`.

So is what is never pruned, before the sweep.
"""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from own_networks import vit

from prunecast import families
from prunecast.cli import cli
from prunecast.families import NotPrunable
from prunecast.pruning import chain_folder
from prunecast.sweep import event_line, overview, read_plan, run_plan
from prunecast.sweep.__main__ import main
from prunecast.sweep.overview import NeverPruned, never_pruned, removable_units
from prunecast.sweep.wording import never_pruned_line

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
    assert f"chain 1: no weight is left in branch.weight from level {first} on" in " ".join(said.split())


def test_a_network_that_learnt_hardly_anything_says_so_at_level_0(swept):
    _, plan, (first, *_) = swept
    assert first.record.error > 0.85
    assert "· hardly better than guessing (0.8906), so train longer or change the rec" in event_line(
        plan, first
    )
    for changes in ({"error": 0.5}, {"level": 1}):
        other = replace(first, record=replace(first.record, **changes))
        assert "guessing" not in event_line(plan, other)


VIT = PLAN.replace("weak_branch", "vit").replace("depth = 2", "depth = [1, 2]").replace("cap = 3", "cap = 0")


def test_what_is_never_pruned_is_said_once_before_anything_is_trained(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit.toml").write_text(VIT)
    parameters = sum(parameter.numel() for parameter in vit(1, 1, 10).parameters())
    share = f"positions ({16 * 8 / parameters:.1%})"
    what = f"apart from biases and normalisation, never pruned: {share} of the parameters."
    said = f"own_networks:vit, depth 1, width 1: {what}"
    shown = CliRunner().invoke(cli, ["plan", "vit.toml", "--no-estimate"], catch_exceptions=False).output
    assert " ".join(shown.split()).count(said) == 1
    lines = (
        CliRunner()
        .invoke(cli, ["run", "vit.toml", "--jobs", "1"], catch_exceptions=False)
        .output.splitlines()
    )
    assert [line for line in lines if "never pruned" in line] == lines[:1] == [said]
    assert main(["vit.toml", "--jobs", "1", "--store", "other"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if "never pruned" in line] == lines[:1] == [said]


def test_the_largest_tensors_are_named(swept):
    tensors = tuple(NotPrunable(name=f"table{number}", parameters=10 * number) for number in range(1, 6))
    own = NeverPruned(family="m:f", depth=2, width=0.5, tensors=tensors, parameters=1000)
    assert never_pruned_line(own) == (
        "m:f, depth 2, width 0.5: apart from biases and normalisation, never pruned: table5 (5.0%), "
        "table4 (4.0%), table3 (3.0%) and 2 more (3.0%) of the parameters."
    )
    _, plan, events = swept
    assert never_pruned(plan) == ()
    assert not any("never pruned" in event_line(plan, event) for event in events)


@pytest.mark.parametrize(
    ("family", "words"),
    [
        (
            "own_networks:vit",
            r"All outputs are kept of .*\(.* them to others\) and .* \(it computes the output\)",
        ),
        ("common_networks:mobilenet", r"All outputs are kept of \S+ \(it computes the output\)"),
    ],
)
def test_a_plan_says_which_channels_can_be_removed(tmp_path, family, words):
    text = VIT.replace("own_networks:vit", family)
    text = f'method = "imp-channels"\n{text}'
    (tmp_path / "plan.toml").write_text(text)
    shown = CliRunner().invoke(
        cli, ["plan", str(tmp_path / "plan.toml"), "--no-estimate"], catch_exceptions=False
    )
    said = " ".join(shown.output.split())
    assert re.search(rf"{family}, depth 1, width 1: \d+ units in \d+ groups can be removed", said)
    assert re.search(words, said)
    (own,) = removable_units(overview(read_plan(tmp_path / "plan.toml")).plan)
    model = families.build(family, depth=1, width=1, num_classes=10, image_shape=(1, 8, 8))
    units = families.find_units(model, (1, 8, 8))
    small = units.sliced(model, units.first(dict.fromkeys(units.names, 1)))
    left, whole = (sum(own.numel() for own in net.parameters()) for net in (small, model))
    assert own.least == pytest.approx(left / whole)

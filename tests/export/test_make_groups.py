"""Chains of N:M from the plan to the made network."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from made_networks import Swept
from safetensors.torch import load_file

from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.export import order
from prunecast.sweep import export, read_plan, run_plan

pytestmark = pytest.mark.slow
PLAN = """# Groups of eight weights in two widths.
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 6, drops = [5], rewind = 1}
num_examples = 400
depth = 3
width = [1, 2]
method = {name = "one-of-eight", structure = "1:8"}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "small.toml").write_text(PLAN, encoding="utf-8")
    plan = read_plan(folder / "small.toml")
    for _ in run_plan(plan, folder / "store"):
        pass
    export(plan, folder / "store", folder / "results.csv")
    return folder


def test_the_plan_says_what_stays_dense(swept: Path):
    done = CliRunner().invoke(cli, ["plan", str(swept / "small.toml"), "--no-estimate"])
    assert "at most 16 training runs (level cap 7)" in done.output
    lines = " ".join(done.output.split())
    assert "the structure 1:8 leaves conv1.weight (5.0%) of the parameters dense" in lines
    assert "into groups of 8" in lines


@pytest.mark.parametrize(("density", "kept"), [("0.5", 4), ("0.45", 4), ("0.2", 2)])
def test_the_made_network_has_the_pattern_of_a_level(swept: Path, density: str, kept: int):
    folder = swept / f"network-{density}"
    done = Swept(swept).run("--density", density, "--depth", "3", "--width", "2", output=folder)
    assert done.exit_code == 0, done.output
    card = json.loads((folder / "card.json").read_text())
    assert card["network"]["level"] == 8 - kept
    assert card["network"]["density"] >= float(density)
    assert [own["name"] for own in card["counts"]["kept_dense"]] == ["conv1.weight"]
    state = load_file(folder / "model.safetensors")
    for name in ("conv2.weight", "head.weight"):
        weight = state[name].movedim(1, -1).reshape(-1, 8)
        assert bool(((weight != 0).sum(1) == kept).all())
    text = (folder / "README.md").read_text()
    assert f"{kept} of every 8 consecutive weights along the inputs of a layer are kept" in text
    assert "1:8 leaves conv1.weight (2.8%) of the parameters dense" in text


def test_what_no_level_reaches_is_refused_before_anything_is_trained(swept: Path):
    plan = read_plan(swept / "small.toml")
    asked = {"density": 0.1, "depth": 3, "width": 2}
    with pytest.raises(
        PrunecastError, match=r"structure 1:8 keeps at least 760 of the 5,072 weights .*0\.1498"
    ):
        order(swept / "results.csv", plan, swept / "none", **asked)


def test_a_budget_of_parameters_is_kept(swept: Path):
    plan = read_plan(swept / "small.toml")
    asked = {"density": 0.45, "depth": 3, "width": 2}
    placed = order(swept / "results.csv", plan, swept / "none", max_parameters=1e6, **asked)
    assert placed.level == 5

"""From timed channels to a network within a budget of milliseconds, with both numbers on its card."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from click.testing import CliRunner, Result
from made_networks import Swept

from prunecast import laws
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.export import Timing
from prunecast.sweep import read_plan, run_plan

PLAN = """# Whole channels of five widths.
family = "digits_cnn"
dataset = "digits"
recipe = {preset = "digits", name = "short", epochs = 6, drops = [5], rewind = 1}
num_examples = 400
level_cap = 5
depth = 3
width = [0.5, 1, 1.5, 2, 4]
method = "imp-channels"
"""
BUDGET = "1000s"
"""Whatever the machine does meanwhile, the network is faster."""


def command(*line: str) -> Result:
    return CliRunner().invoke(cli, line, catch_exceptions=False)


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    folder = tmp_path_factory.mktemp("latency")
    (folder / "small.toml").write_text(PLAN, encoding="utf-8")
    for _ in run_plan(read_plan(folder / "small.toml"), folder / "store"):
        pass
    where = ("--store", str(folder / "store"), "-o", str(folder / "results.csv"))
    how = ("--batch", "4", "--batch", "2", "--seconds", "0.02")
    done = command("time", str(folder / "small.toml"), *where, *how)
    assert done.exit_code == 0, done.output
    return Swept(folder)


@pytest.mark.slow
@pytest.mark.parametrize("width", ["2", "3"])
def test_a_network_within_a_budget_of_milliseconds(timed: Swept, tmp_path: Path, width: str):
    asked = ("--max-latency", BUDGET, "--width", width, "--density", "0.3")
    chosen = json.loads(command("choose", str(timed.folder / "results.csv"), *asked, "--json").output)
    done = timed.run(*asked, output=tmp_path / "network")
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "network" / "card.json").read_text())
    latency = card["latency"]
    assert latency["predicted"] == pytest.approx(chosen["latency_ms"])
    assert (latency["interval"] is None) == (width == "2")  # the other width was not timed
    assert 0 < latency["low"] <= latency["measured"] <= latency["high"]
    assert (latency["runtime"], latency["batch"], latency["threads"]) == ("torch", 4, 1)
    assert latency["within_budget"]
    assert card["predicted"]["value"] == pytest.approx(chosen["error"])
    text = (tmp_path / "network" / "README.md").read_text()
    assert "| predicted | 95% interval | measured |" in text
    assert "with 4 images in PyTorch" in text
    assert "It keeps to the budget." in text
    (other,) = card["other_latencies"]
    (promised,) = chosen["other_latencies"]
    assert (other["runtime"], other["batch"]) == (promised["runtime"], promised["batch"]) == ("torch", 2)
    assert other["predicted"] == pytest.approx(promised["milliseconds"])
    assert (other["interval"] is None) == (width == "2")
    assert 0 < other["low"] <= other["measured"] <= other["high"]
    assert other["within_budget"] is None
    for batch in (4, 2):
        assert f"| latency of {batch} images in PyTorch, ms | " in text
        assert f"latency of {batch} images in PyTorch, ms" in done.output
    again = json.loads(
        command("time", str(tmp_path / "network"), "--batch", "4", "--seconds", "0.02", "--json").output
    )
    assert again["made"][0]["batch"] == 4


@pytest.mark.slow
def test_a_network_within_a_budget_of_another_way(timed: Swept, tmp_path: Path):
    asked = ("--max-latency", BUDGET, "--timed-with", "torch-2", "--width", "2", "--density", "1")
    done = timed.run(*asked, output=tmp_path / "network")
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "network" / "card.json").read_text())
    assert (card["latency"]["batch"], card["latency"]["within_budget"]) == (2, True)
    assert [own["batch"] for own in card["other_latencies"]] == [4]
    text = (tmp_path / "network" / "README.md").read_text()
    assert "Nothing was removed: this is the unpruned network." in text
    assert "Whole channels were removed" not in text


@pytest.mark.slow
@pytest.mark.usefixtures("with_onnx")
def test_the_card_compares_latencies_in_both_runtimes(timed: Swept, tmp_path: Path):
    where = ("--store", str(timed.folder / "store"), "-o", str(tmp_path / "results.csv"), "--seconds", "0.02")
    both = ("--runtime", "torch", "--runtime", "onnx", "--batch", "1", "--batch", "8")
    done = command("time", str(timed.folder / "small.toml"), *where, *both)
    assert done.exit_code == 0, done.output
    (tmp_path / "small.toml").write_text(PLAN, encoding="utf-8")
    asked = ("--max-latency", BUDGET, "--timed-with", "onnx-8", "--width", "3", "--density", "0.5")
    done = Swept(tmp_path).run(*asked, output=tmp_path / "network")
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "network" / "card.json").read_text())
    compared = [card["latency"], *card["other_latencies"]]
    assert [(own["runtime"], own["batch"]) for own in compared] == [
        *(("onnx", 8), ("torch", 8), ("onnx", 1), ("torch", 1)),
    ]
    assert all(own["interval"][0] < own["predicted"] < own["interval"][1] for own in compared)
    assert all(own["measured"] > 0 for own in compared)
    text = (tmp_path / "network" / "README.md").read_text()
    assert "| latency of 8 images in ONNX Runtime, ms |" in text
    assert "| latency of 1 image in PyTorch, ms |" in text


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_budget_that_cannot_be_checked_here_is_refused_before_training(timed: Swept, tmp_path: Path):
    table = pd.read_csv(timed.folder / "results.csv").replace({"timed_with": {"torch-4-1": "cuda-4-1"}})
    table.to_csv(tmp_path / "results.csv", index=False)
    (tmp_path / "small.toml").write_text(PLAN, encoding="utf-8")
    there, size = Swept(tmp_path), ("--width", "2", "--density", "0.3")
    with pytest.raises(PrunecastError, match="timed with 'cuda-4-1', but this machine has no GPU"):
        there.run("--max-latency", BUDGET, *size, output=tmp_path / "network")
    assert not (tmp_path / "network").exists()
    done = there.run("--max-parameters", "1e9", *size, output=tmp_path / "network")
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "network" / "card.json").read_text())
    assert (card["latency"]["runtime"], card["latency"]["batch"]) == ("torch", 2)


@pytest.mark.slow
def test_a_saved_law_knows_how_its_networks_were_timed(timed: Swept, tmp_path: Path):
    done = command("fit", str(timed.folder / "results.csv"), "-o", str(tmp_path / "law.json"))
    assert done.exit_code == 0, done.output
    assert laws.load(tmp_path / "law.json").origin.timed_with == "torch-4-1"


@pytest.mark.parametrize(
    "name",
    [
        *("", "torch", "torch-0-1", "gpu-1-1", "torch-1-x", "torch-1-1-1"),
        *("torch-9999999-1", "torch-1-9999", "torch-" + "9" * 5000 + "-1", "torch-٤-1"),
    ],
    ids=range(10),
)
def test_a_name_that_is_not_understood_changes_nothing(name: str):
    assert Timing().named(name) == Timing()


def test_a_name_says_how_to_time():
    own = Timing(runtimes=("onnx",), batches=(64,), threads=2)
    assert Timing().named(own.name) == own

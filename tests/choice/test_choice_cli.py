"""`prunecast choose`: its text against golden files, its JSON against what programs need."""

import json
from pathlib import Path

import pytest
import research_tables
from click.testing import CliRunner
from golden_files import golden

from prunecast import read
from prunecast.cli import cli
from prunecast.errors import PrunecastError

GOLDEN = Path(__file__).parent / "golden"
MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
CASES = {
    "target": ["--target-error", "0.2"],
    "dip": ["--target-error", "0.2", "--law", "dip", "--confidence", "0.9"],
    "measured-beats-law": ["--target-error", "0.3", "--num-examples", "6250", "--law", "eq2"],
    "impossible": ["--target-error", "0.11"],
    "parameter-budget": ["--max-parameters", "5000", "--minimise", "nonzero", "--sizes", "around"],
    "training-budget": ["--max-training", "2", "--target-error", "0.25"],
    "frontier": ["--frontier", "--minimise", "multiply-adds", "--sizes", "around"],
}


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["choose", MEASURED, *arguments], catch_exceptions=False)
    assert result.exit_code == (1 if arguments[:2] == ("--target-error", "0.11") else 0)
    return result.output


def _json(*arguments: str) -> str:
    return CliRunner().invoke(cli, ["choose", *arguments, "--json"], catch_exceptions=False).output


@pytest.mark.parametrize("name", CASES)
def test_the_text_is_the_golden_one(name: str) -> None:
    text = _run(*CASES[name])
    assert text == golden(GOLDEN / f"{name}.txt", text)


@pytest.mark.parametrize("name", CASES)
def test_the_json_has_what_programs_need(name: str) -> None:
    body = json.loads(_run(*CASES[name], "--json"))
    if name == "frontier":
        assert len(body["error"]) == len(body["size"]) == 200
        return
    needed = {
        "depth",
        "width",
        "density",
        "error",
        "interval",
        "probability",
        "nonzero_parameters",
        "met",
        "notes",
    }
    assert needed <= set(body)
    assert body["met"] == (name != "impossible")


def test_a_saved_law_cannot_become_another(tmp_path: Path) -> None:
    law = str(tmp_path / "law.json")
    CliRunner().invoke(cli, ["fit", MEASURED, "--law", "auto", "-o", law], catch_exceptions=False)
    for more in (["--law", "eq2"], ["--where", "width=1"], ["--metric", "loss"], ["--chance", "0.8"]):
        with pytest.raises(PrunecastError, match="give the table"):
            CliRunner().invoke(cli, ["choose", law, "--target-error", "0.2", *more], catch_exceptions=False)
    result = CliRunner().invoke(cli, ["choose", law, "--target-error", "0.2"], catch_exceptions=False)
    assert result.output == (GOLDEN / "target.txt").read_text(encoding="utf-8")


def test_a_frontier_says_what_it_leaves_out() -> None:
    """It begins where the law's curves are lowest: below what is expected unpruned, but not at the luckiest row."""
    least = float(read("cifar10-resnet").select(num_examples=50000).frame["error"].min())
    result = CliRunner().invoke(cli, ["choose", "cifar10-resnet", "--frontier"], catch_exceptions=False)
    assert "--json lists all 200 errors." in result.output
    assert f"The lowest measured error is {least:.4f}." in result.output
    body = json.loads(CliRunner().invoke(cli, ["choose", "cifar10-resnet", "--frontier", "--json"]).output)
    assert body["least_measured"] == pytest.approx(least)
    whole = json.loads(_json("cifar10-resnet", "--max-training", "1", "--density", "1"))
    assert least < body["error"][0] < whole["expected_unpruned_error"]
    assert f"\n{body['error'][-1]:.4f} " in result.output


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--max-training", "0.001"], "training costs at least {} without pruning"),
        (["--max-parameters", "3"], "the smallest has {} stored parameters with one weight left"),
        (["--max-training", "0.001", "--density", "0.1"], "training costs at least {} for density 0.1"),
    ],
)
def test_a_budget_too_small_is_told_the_least_that_would_do(asked: list[str], said: str) -> None:
    first, last = said.split("{}")
    with pytest.raises(PrunecastError, match=first) as caught:
        _run(*asked, "--sizes", "measured")
    least = str(caught.value).partition(first)[2].partition(last)[0]
    assert _run(asked[0], least, *asked[2:], "--sizes", "measured").startswith("Train depth 20")
    below = str(0.99 * float(least))
    with pytest.raises(PrunecastError, match="fits the budget"):
        _run(asked[0], below, *asked[2:], "--sizes", "measured")

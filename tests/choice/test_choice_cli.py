"""`prunecast choose`: its text against golden files, its JSON against what programs need."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from golden_files import golden

from prunecast.cli import cli
from prunecast.errors import PrunecastError

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = "cifar10-resnet20-24ep"
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
    result = CliRunner().invoke(cli, ["choose", SHIPPED, *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


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
    CliRunner().invoke(cli, ["fit", SHIPPED, "--law", "auto", "-o", law], catch_exceptions=False)
    for more in (["--law", "eq2"], ["--where", "width=1"], ["--metric", "loss"], ["--chance", "0.8"]):
        with pytest.raises(PrunecastError, match="give the table"):
            CliRunner().invoke(cli, ["choose", law, "--target-error", "0.2", *more], catch_exceptions=False)
    result = CliRunner().invoke(cli, ["choose", law, "--target-error", "0.2"], catch_exceptions=False)
    assert result.output == (GOLDEN / "target.txt").read_text(encoding="utf-8")

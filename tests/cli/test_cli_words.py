"""Text speaks of what the numbers are: losses and validation errors are called so."""

import re

import pytest
from click.testing import CliRunner
from planted import planted

from prunecast.cli import cli

COMMANDS = (
    ["fit"],
    ["choose", "--target-error", "0.9"],
    ["choose", "--target-error", "0.01"],
    ["choose", "--frontier"],
    ["study", "dips"],
    ["study", "invariance"],
    ["study", "optimality"],
)


@pytest.fixture(scope="module")
def frame():
    return planted(configurations=6, depths=(20,), widths=(0.25, 0.5, 1), num_examples=(50_000, 12_500))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_losses_are_never_called_errors(command, frame, tmp_path):
    path = tmp_path / "losses.csv"
    frame.assign(loss=3 * frame["error"]).drop(columns="error").to_csv(path, index=False)
    name, *options = command
    place = options[:1] if name == "study" else []
    words = [name, *place, str(path), "--metric", "loss", *options[len(place) :]]
    output = CliRunner().invoke(cli, words, catch_exceptions=False).output
    assert re.search(r"\bloss(es)?\b", output)
    assert re.findall(r".*\berrors?\b(?!-|_).*", output.replace("--target-error", ""), re.IGNORECASE) == []


@pytest.mark.parametrize(
    "asked", [["--target-error", "0.3"], ["--target-error", "0.01"], ["--frontier"]], ids=" ".join
)
def test_a_choice_by_validation_errors_says_so(asked, frame, tmp_path):
    path = tmp_path / "validated.csv"
    frame.assign(validation_error=(1.1 * frame["error"]).clip(upper=0.95)).to_csv(path, index=False)
    output = CliRunner().invoke(cli, ["choose", str(path), *asked], catch_exceptions=False).output
    flat = " ".join(output.split())
    assert "validation error" in flat
    assert re.findall(r"(?<!validation )\berrors?\b", flat, re.IGNORECASE) == []

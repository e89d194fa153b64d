"""What to train next: suggestions take the doubt off the answers, cost what they say, and suit the table."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import research_tables
from click.testing import CliRunner
from golden_files import golden
from own_tables import own_table
from planted import WEIGHTS, law_error, planted, unpruned_error

from prunecast.cli import cli
from prunecast.studies import NextTraining, SuggestionKind, findings, next_training
from prunecast.table import read

GOLDEN = Path(__file__).parent / "golden"
MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))
TARGET = 0.2
FRAME = planted(configurations=12, noise=0.01, num_examples=(50_000, 12_500), seed=3)


def chain(depth: float, width: float, num_examples: float, levels: range, seed: int = 0) -> pd.DataFrame:
    """Rows of the planted law, with its noise."""
    frame = pd.DataFrame({"level": levels}).assign(
        depth=depth, width=width, num_examples=num_examples, replicate=9
    )
    frame["density"] = 0.8 ** frame["level"]
    frame["weights"] = WEIGHTS * depth * width**2
    frame["nonzero"] = frame["weights"] * frame["density"]
    frame["error"] = np.where(frame["level"] > 0, law_error(frame), unpruned_error(frame))
    noise = np.random.default_rng(seed).standard_normal(len(frame))
    return frame.assign(error=frame["error"] * np.exp(0.01 * noise))


def doubt(study: NextTraining) -> float:
    return math.fsum(own.doubt or 0.0 for own in study.answers)


def test_chains_that_are_left_out_are_missed_and_take_off_doubt() -> None:
    whole = read("cifar10-resnet", where={"num_examples": 50_000}).frame
    few = next_training(read(whole[~whole["width"].isin([0.125, 0.5])]))
    assert {0.125, 0.5} & {own.width for own in few.suggestions}
    assert doubt(next_training(read(whole))) < doubt(few)


def test_suggestions_are_ordered_by_gain_per_cost_and_differ_in_size() -> None:
    study = next_training(read(FRAME))
    values = [(own.gain or 0.0) / own.cost for own in study.suggestions]
    assert values == sorted(values, reverse=True)
    sizes = [(own.depth, own.width) for own in study.suggestions]
    assert len(set(sizes)) == len(sizes)
    for own in study.suggestions:
        assert own.num_examples == 50_000
        assert own.cost > 0
        assert own.training_runs >= 1
        assert own.unpruned_first <= (own.training_runs == 1)


def test_more_data_lower_the_doubt_and_settle_the_answer() -> None:
    few = next_training(read(planted(configurations=8, seed=2)), target_error=TARGET)
    many = next_training(read(planted(configurations=152, seed=2)), target_error=TARGET)
    assert doubt(many) < doubt(few) / 2
    assert many.settled


def test_without_a_target_five_errors_are_weighed() -> None:
    study = next_training(read(FRAME))
    targets = [own.target_error for own in study.answers]
    assert len(targets) == 5
    assert targets == sorted(targets)


def test_the_number_of_examples_asked_for_is_that_of_the_suggestions() -> None:
    study = next_training(read(FRAME), target_error=0.3, num_examples=12_500)
    assert study.num_examples == 12_500
    assert {own.num_examples for own in study.suggestions} <= {12_500}


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_the_command_prints_its_golden_text(law: str) -> None:
    result = CliRunner().invoke(cli, ["next", MEASURED, "--law", law], catch_exceptions=False)
    assert result.output == golden(GOLDEN / f"next-{law}.txt", result.output)
    body = json.loads(CliRunner().invoke(cli, ["next", MEASURED, "--law", law, "--json"]).output)
    assert body["law"] == law
    assert [own["target_error"] for own in body["answers"]] == [
        own.target_error for own in next_training(read(MEASURED), law=law).answers
    ]


def test_axes_that_never_varied_are_named() -> None:
    study = next_training(read(MEASURED))
    assert findings.AxisToTrain(axis="depth", example=14) in study.findings


def test_one_curve_asks_for_another_size() -> None:
    study = next_training(read(MEASURED, where={"num_examples": 50_000, "width": 1}))
    assert {own.kind for own in study.suggestions} <= {"more levels", "another replicate"}
    assert findings.AxisToTrain(axis="width", example=0.25) in study.findings


def test_two_short_curves_are_continued() -> None:
    frame = read(MEASURED, where={"num_examples": 50_000}).frame
    short = frame[frame["width"].isin([0.125, 0.25]) & (frame["level"] < 12)]
    study = next_training(read(short))
    assert not study.settled
    assert SuggestionKind.MORE_LEVELS in {own.kind for own in study.suggestions}
    assert findings.UnprunedErrorsGuessed() in study.findings


def test_curves_that_do_not_rise_are_continued() -> None:
    study = next_training(read(chain(20, 1.0, 50_000, range(4))))
    assert not study.answers
    assert not study.settled
    assert [own.kind for own in study.suggestions] == ["more levels"]
    assert study.suggestions[0].gain is None


def test_a_target_that_nothing_reaches_settles_nothing() -> None:
    beyond = next_training(read(MEASURED, where={"num_examples": 50_000}), target_error=0.001)
    assert not beyond.settled
    assert not beyond.answers[0].met
    assert beyond.findings[0] == findings.TargetNotReached(target_error=0.001)


def test_a_table_of_ones_own_hears_of_no_axis_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    own_table().to_csv(path, index=False)
    text = CliRunner().invoke(cli, ["next", str(path)], catch_exceptions=False).output
    header = next(line for line in text.splitlines() if line.startswith("Train "))
    assert header.split()[:4] == ["Train", "Width", "Until", "error"]
    assert "depth" not in text.lower()
    assert next_training(read(path)).kept_per_level == pytest.approx(0.64)

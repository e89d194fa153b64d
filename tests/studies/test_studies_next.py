"""What to train next: the gains promised are the gains that come."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from golden_files import golden
from own_tables import own_table
from planted import WEIGHTS, law_error, planted, unpruned_error

from prunecast import report
from prunecast.cli import cli
from prunecast.laws import fit, measured
from prunecast.metric import Metric
from prunecast.report import terminal
from prunecast.studies import SuggestionKind, expected_regret, findings, next_training
from prunecast.studies.next_training import Weighing
from prunecast.studies.refits import full_fit
from prunecast.table import Table, read

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = "cifar10-resnet20-24ep"
FRAME = planted(configurations=12, noise=0.002, num_examples=(50_000, 12_500), seed=3)


def _chain(depth: float, width: float, num_examples: float, levels: range) -> pd.DataFrame:
    """The planted law's own rows, without noise."""
    frame = pd.DataFrame({"level": levels}).assign(
        depth=depth, width=width, num_examples=num_examples, replicate=1
    )
    frame["density"] = 0.8 ** frame["level"]
    frame["weights"] = WEIGHTS * depth * width**2
    frame["nonzero"] = frame["weights"] * frame["density"]
    frame["error"] = np.where(frame["level"] > 0, law_error(frame), unpruned_error(frame))
    return frame


def _variance(table: Table, average: np.ndarray, reference: Table) -> float:
    """tr(average · covariance) of a table's information at the parameters fitted to the reference."""
    full = full_fit(reference)
    points = replace(measured(table).points, reference_depth=full.points.reference_depth)
    weighed = Weighing.of(fit(reference), replace(full, points=points))
    return float(np.trace(average @ np.linalg.inv(weighed.information)))


@pytest.mark.parametrize("kind", SuggestionKind)
def test_the_gain_promised_is_the_gain_that_comes(kind: SuggestionKind) -> None:
    before = read(FRAME)
    weighing = Weighing.of(fit(before), full_fit(before))
    best = max((own for own in weighing.suggestions() if own.kind == kind), key=lambda own: own.reduction)
    place = (best.depth, best.width, best.num_examples)
    same = (FRAME["depth"] == best.depth) & (FRAME["width"] == best.width)
    same &= FRAME["num_examples"] == best.num_examples
    if kind is SuggestionKind.REPLICATE:
        added = FRAME[same].assign(replicate=2)
    else:
        first = 0 if kind is SuggestionKind.NEW_CHAIN else int(FRAME[same]["level"].max()) + 1
        added = _chain(*place, range(first, best.last_level + 1))
        assert len(added) == best.trainings
    after = read(pd.concat([FRAME, added], ignore_index=True))
    ratio = _variance(after, weighing.average, before) / _variance(before, weighing.average, before)
    assert 1 - ratio == pytest.approx(best.reduction, abs=0.05)
    assert best.reduction > 0.02


def test_suggestions_are_worth_their_cost_and_in_order() -> None:
    study = next_training(read(FRAME))
    values = [own.per_cost for own in study.suggestions]
    assert values == sorted(values, reverse=True)
    for own in study.suggestions:
        assert 0.05 <= own.reduction < 1
        assert own.cost > 0
        assert max(own.shrinks.values()) > 0


def test_more_data_lower_the_uncertainty_and_the_regret() -> None:
    few = next_training(read(planted(configurations=8, seed=2)))
    many = next_training(read(planted(configurations=152, seed=2)))
    assert many.uncertainty < few.uncertainty / 2
    assert many.regret <= few.regret
    assert many.settled


def test_regret_is_zero_where_nothing_is_uncertain() -> None:
    law = fit(read(FRAME))
    certain = replace(law, spread=replace(law.spread, draws=np.tile(law.theta(), (10, 1))))
    assert expected_regret(certain) == pytest.approx(0.0, abs=1e-12)
    assert expected_regret(certain, 0.2, other=law) == pytest.approx(0.0, abs=1e-12)


def test_axes_that_never_varied_are_named() -> None:
    study = next_training(read(SHIPPED))
    assert findings.AxisToTrain(axis="depth", example=14) in study.findings


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_the_command_prints_its_golden_text(law: str) -> None:
    result = CliRunner().invoke(cli, ["next", SHIPPED, "--law", law], catch_exceptions=False)
    assert result.output == golden(GOLDEN / f"next-{law}.txt", result.output)
    body = json.loads(CliRunner().invoke(cli, ["next", SHIPPED, "--law", law, "--json"]).output)
    assert body["suggestions"][0]["kind"] == "new chain"
    assert body["settled"] == (max(body["regret"], body["other_law_regret"]) < 0.02)


def test_one_curve_asks_for_another_size() -> None:
    study = next_training(read(SHIPPED, where={"num_examples": 50_000, "width": 1}))
    assert study.one_size
    assert not study.settled
    assert {own.kind for own in study.suggestions} <= {"more levels", "another replicate"}
    assert findings.AxisToTrain(axis="width", example=0.25) in study.findings


def test_two_short_curves_are_told_to_go_on() -> None:
    frame = read(SHIPPED, where={"num_examples": 50_000}).frame
    short = frame[frame["width"].isin([0.125, 0.25]) & (frame["level"] < 12)]
    study = next_training(read(short))
    assert not study.settled
    assert {own.kind for own in study.suggestions} == {"more levels", "another replicate", "new chain"}
    assert study.suggestions[0].kind == "more levels"
    assert findings.UnprunedErrorsGuessed() in study.findings


def test_rows_too_few_for_the_other_law_still_get_a_suggestion() -> None:
    chain = _chain(20, 1.0, 50_000, range(4))
    study = next_training(read(chain))
    assert np.isnan(study.other_law_regret)
    assert not study.settled
    assert study.suggestions


def test_a_target_that_nothing_reaches_settles_no_choice() -> None:
    table = read(SHIPPED, where={"num_examples": 50_000})
    assert next_training(table, target_error=0.2).settled
    beyond = next_training(table, target_error=0.001)
    assert not beyond.settled
    assert beyond.findings[0] == beyond.doubt == findings.TargetNotReached(target_error=0.001)


def test_a_table_of_ones_own_is_told_densities_and_no_axis_that_it_lacks(tmp_path: Path) -> None:
    """Its levels are steps of 0.64, and so are those that are proposed."""
    path = tmp_path / "own.csv"
    own_table().to_csv(path, index=False)
    text = CliRunner().invoke(cli, ["next", str(path)], catch_exceptions=False).output
    header = next(line for line in text.splitlines() if line.startswith("Train "))
    assert header.split()[:4] == ["Train", "Width", "To", "density"]
    assert "depth" not in text.lower()
    study = next_training(read(path))
    lowest = float(own_table()["density"].min())
    for own in study.suggestions:
        if own.kind == "another replicate":
            assert own.last_density == pytest.approx(lowest)
        if own.kind == "more levels":
            assert own.last_density < lowest
        assert own.last_density == pytest.approx(0.64**own.last_level)


def test_suggestions_of_a_kind_are_about_different_networks() -> None:
    study = next_training(read(own_table()))
    widths = sorted(own.width for own in study.suggestions if own.kind == "new chain")
    assert widths
    assert all(wide / narrow >= 1.5 for narrow, wide in pairwise(widths))


def test_a_verdict_agrees_with_its_costs() -> None:
    """Little regret with open parameters is not settled, and is not called a choice about to change either."""
    study = next_training(read(own_table()))
    assert study.regret < 0.02
    assert not study.settled
    assert isinstance(study.doubt, findings.RegretUndetermined)
    text = terminal.text(report.next_training(study, Metric.ERROR))
    assert "These costs are small, but" in text
    assert "which network to choose" not in text
    assert next_training(read(SHIPPED)).doubt is None

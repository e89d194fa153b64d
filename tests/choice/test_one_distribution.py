"""Every command answers by the same laws, from one distribution of new training runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from planted import planted

from prunecast import fit, read
from prunecast.choice import question_for
from prunecast.cli import cli
from prunecast.report.answers import answers

TARGET = 0.2
SIZES = {"depths": (8, 20), "widths": (0.25, 0.5, 1.0), "num_examples": (50_000, 12_500)}


def said(*line: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    done = CliRunner().invoke(cli, [*line, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)
    return found


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Curves whose noise their levels share, so that several laws describe them about as well."""
    path = tmp_path_factory.mktemp("table") / "runs.csv"
    frame = planted(configurations=14, noise=0.02, correlation=0.75, seed=2, **SIZES)
    frame.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def law(table: Path) -> Path:
    path = table.with_name("law.json")
    said("fit", str(table), "-o", str(path))
    return path


def test_predict_choose_and_the_page_agree(table: Path, law: Path) -> None:
    chosen = said("choose", str(table), "--target-error", str(TARGET))
    place = {name: chosen[name] for name in ("depth", "width", "density")}
    assert chosen["source"] == "law"
    assert chosen["question"]["confidence"] == 0.8
    assert chosen["probability"] >= 0.8

    by_law = said("choose", str(law), "--target-error", str(TARGET))
    assert {name: by_law[name] for name in place} == pytest.approx(place, rel=1e-4)
    assert by_law["interval"] == pytest.approx(chosen["interval"], rel=1e-3)

    options = [option for name, value in place.items() for option in (f"--{name}", repr(value))]
    (predicted,) = said("predict", str(law), *options, "--num-examples", "50000")["predictions"]
    assert (predicted["lower"], predicted["upper"]) == pytest.approx(chosen["interval"], rel=1e-3)
    assert predicted["error"] == pytest.approx(chosen["error"], rel=1e-3)

    fitted = fit(read(table))
    every = answers(fitted, question_for(fitted, target_error=TARGET))
    (shown,) = (one.answer for one in every if one.question.target_error == TARGET)
    assert {name: getattr(shown, name) for name in place} == pytest.approx(place)
    assert shown.interval == pytest.approx(chosen["interval"])


def test_the_laws_and_their_weights_are_the_same_everywhere(table: Path, law: Path) -> None:
    """Of a fit, of the law that it saved and of the studies; a page states those of its fit."""
    own = fit(read(table))
    saved = json.loads(law.read_text(encoding="utf-8"))
    weights = {one.law: one.weight for one in own.alternatives}
    assert len(weights) > 1
    assert {one["law"]: one["weight"] for one in saved["alternatives"]} == pytest.approx(weights, rel=1e-6)
    for line in (
        ["fit", str(table)],
        ["choose", str(table), "--target-error", str(TARGET)],
    ):
        assert said(*line)["law"] == own.law

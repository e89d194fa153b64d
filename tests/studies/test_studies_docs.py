"""The page of studies holds the numbers that the studies give."""

from pathlib import Path

import pytest
import research_tables

from prunecast import read
from prunecast.studies import STUDIES, dips, extrapolation, forms, invariance, noise, optimality, sensitivity

PAGE = (Path(__file__).parents[2] / "docs" / "research" / "studies.md").read_text(encoding="utf-8")
FLAT = " ".join(PAGE.replace("−", "-").split())
TABLE = read(research_tables.path("cifar10-resnet20-24ep"))


def _deviation(own) -> str:
    return f"{100 * own.mean:+.1f} ± {100 * own.std:.1f}%"


def test_every_study_has_its_section() -> None:
    sections = [
        line.removeprefix("## ").split(":")[0] for line in PAGE.splitlines() if line.startswith("## ")
    ]
    assert sections[: len(STUDIES)] == [*STUDIES]


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_the_sensitivity_row(law: str) -> None:
    study = sensitivity(TABLE, law=law)
    cells = [
        f"{found['random_configurations']} / {found['designed_configurations']}, "
        f"{found['random_points']} / {found['designed_points']}"
        for found in (study.needed, study.steady)
    ]
    assert f"| prototype, {law} | {_deviation(study.full)} | {cells[0]} | {cells[1]} |" in FLAT


def test_the_extrapolation_rows() -> None:
    for step in extrapolation(TABLE).steps:
        assert f"| {step.law} | {_deviation(step.fitted)} | {_deviation(step.predicted)} |" in FLAT


def test_the_contours() -> None:
    contours = invariance(TABLE).contours[0]
    words = f"{contours.count} contours with slope {contours.mean_slope:.2f} ± {contours.std_slope:.2f}"
    assert f"{words} (Eq. 2: {contours.predicted:.2f}" in FLAT


def test_the_table_of_forms() -> None:
    for score in forms(TABLE).scores:
        regions = " | ".join(_deviation(own) for own in score.left_out_by_region.values())
        assert f"| {score.parameters} | {_deviation(score.left_out)} | {regions} |" in FLAT


def test_the_dips() -> None:
    study = dips(TABLE)
    assert f"the dips put {100 * study.bias:.1f} points" in FLAT
    assert f"it would have {_deviation(study.without_dips)}" in FLAT
    assert f"by {max(one.dip for one in study.dips):.0%} (width 1, 3,125 examples)" in FLAT


def test_the_table_of_optimality() -> None:
    two = [optimality(TABLE, law=law) for law in ("eq2", "dip")]
    rows = {
        "smallest size off by at most, median": [f"{s.largest_miss:.0%}, {s.median_miss:.0%}" for s in two],
        "regret of the law's choice, most, mean": [
            f"{s.largest_regret:.0%}, {s.mean_regret:.1%}" for s in two
        ],
        "one width too small costs": [
            f"{s.start.too_small_measured:+.0%}, {s.start.too_small_predicted:+.0%}" for s in two
        ],
    }
    for name, cells in rows.items():
        assert f"| {name} | {' | '.join(cells)} |" in FLAT


def test_the_roughness() -> None:
    study = noise(TABLE)
    low, power, high = (f"{100 * one.roughness:.1f}%" for one in study.regions)
    assert f"{low} on the low plateau, {power} in the power-law region, {high} near the high plateau" in FLAT

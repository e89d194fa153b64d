"""Every finding of a study has a sentence, in the metric's word."""

import pandas as pd
import pytest
from planted import planted

from prunecast import report
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.report import terminal
from prunecast.studies import STUDIES, extrapolation, findings
from prunecast.table import read
from prunecast.wording import fitted_to, numbers, sentence, study_as_json

TABLE = read(planted(configurations=12, num_examples=(50_000, 12_500), noise=0.01, seed=1))
SAID = [
    (findings.AxisNotVaried(axis="depth"), "Depth does not vary"),
    (findings.TooFewSizes(axis="num_examples", sizes=2, needed=3), "Number of examples has fewer than three"),
    (
        findings.PaperSplitMissing(depths=(14, 20), widths=(0.125, 0.25)),
        "widths 1/8 and 1/4, depths 14 and 20",
    ),
    (findings.CurvesAtBounds(at_bounds=8, curves=11), "8 of 11 curves"),
    (findings.NoNoiseOfReplicates(), "Train a second replicate"),
    (
        findings.FewErrorsCrossed(num_examples=12_500, crossed=9, errors=60, judged=True),
        "12,500 examples cross 9 of 60 losses",
    ),
    (
        findings.FewErrorsCrossed(num_examples=12_500, crossed=9, errors=60, judged=False),
        "--where num_examples=12500",
    ),
    (findings.NoRectangle(), "No set of curves"),
]


@pytest.mark.parametrize(("finding", "part"), SAID)
def test_a_finding_is_said_in_the_metric_of_its_table(finding: Finding, part: str) -> None:
    text = sentence(finding, Metric.LOSS)
    assert part in text
    assert "error" not in text
    assert text.endswith(".")


def test_every_finding_is_said() -> None:
    known = {own for own in vars(findings).values() if isinstance(own, type) and issubclass(own, Finding)}
    assert known - {Finding} == {type(finding) for finding, _ in SAID}
    kinds = [own.kind for own in known - {Finding}]
    assert len(set(kinds)) == len(kinds)


def test_fitted_sizes_are_said() -> None:
    said = {step.along: fitted_to(step) for step in extrapolation(TABLE).steps}
    assert said["depth"].startswith("depth 8, 14")
    assert said["networks"].count(";") == 1
    body = study_as_json(extrapolation(TABLE), Metric.ERROR)
    assert {own["along"]: own["fitted_on"] for own in body["steps"]} == said


def test_a_study_without_a_dip_says_so() -> None:
    """A curve that only rises has no dip, and what its table does not give is no part of a sentence or a table."""
    frame = planted(configurations=7, depths=(20,), num_examples=(50_000,), noise=0.0)
    alone = frame.drop(columns=["depth", "num_examples", "weights", "nonzero"])
    never, falling = (STUDIES["dips"].function(read(own)) for own in (alone, _dipping(alone)))
    section = report.study_section("dips", never, Metric.ERROR)
    assert section.text == ["The error never falls below its unpruned value."]
    assert section.grids[1].header[:2] == ["Width", "Unpruned"]
    text = report.study_section("dips", falling, Metric.ERROR).text[0]
    assert text.startswith("The error falls below its unpruned value by up to 30.0% (width 4; noise alone")


def _dipping(frame: pd.DataFrame) -> pd.DataFrame:
    """One unpruned network is worse by so much that its pruned ones fall below it by 30%."""
    widest = frame["width"] == frame["width"].max()
    least = frame.loc[widest & (frame["density"] < 1), "error"].min()
    return frame.assign(error=frame["error"].where(~widest | (frame["density"] < 1), least / 0.7))


@pytest.mark.parametrize("name", ["extrapolation", "sensitivity", "invariance", "noise"])
def test_a_study_begins_with_what_it_found(name: str) -> None:
    """The page shows this sentence where the study is folded, so it has to hold the study's own numbers."""
    found = STUDIES[name].function(TABLE)
    first, *_ = report.study_section(name, found, Metric.ERROR).text
    expected = {
        "extrapolation": lambda: [numbers.deviation(s.predicted) for s in found.steps if s.law == "eq2"][:1],
        "sensitivity": lambda: [f"all {found.configurations} ({numbers.deviation(found.full)})"],
        "invariance": lambda: [numbers.signed(own.mean_slope) for own in found.contours if own.count],
        "noise": lambda: [numbers.percent(found.residual)],
    }
    assert [own for own in expected[name]() if own not in first] == []


def test_latex_knows_every_sign_of_a_study() -> None:
    tables = report.latex_tables(report.study_section("extrapolation", extrapolation(TABLE), Metric.ERROR))
    assert tables.isascii(), {sign for sign in tables if not sign.isascii()}


def test_no_number_of_a_wide_table_is_cut() -> None:
    section = report.study_section("extrapolation", extrapolation(TABLE), Metric.ERROR)
    text = terminal.text(section)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= terminal.WIDTH

"""Every finding of a study has a sentence, in the metric's word."""

import json
from dataclasses import replace

import pytest
from planted import planted

from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.studies import extrapolation, findings, next_training
from prunecast.table import read
from prunecast.wording import fitted_to, next_conclusion, sentence, study_as_json

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
    (findings.TargetNotReached(target_error=0.001), "reaches a loss of 0.001"),
    (findings.AxisToTrain(axis="width", example=0.25), "Train another width, for example 0.25."),
    (findings.UnprunedErrorsGuessed(), "a law of the unpruned loss"),
    (findings.GainsAssumeLaw(), "the law of unpruned losses"),
    (findings.RegretUndetermined(symbols=("γ", "p′")), "depend on γ and p′, which"),
    (findings.OnlyMeasuredSizes(), "Only measured sizes"),
    (findings.OtherLawsUnknown(laws=("dip",)), "too few rows to fit dip"),
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


def test_conclusions_follow_the_numbers() -> None:
    study = replace(next_training(TABLE), settled=False, doubt=None, regret=0.1, other_law_regret=0.05)
    assert next_conclusion(study, Metric.ERROR) == "More data may still change which network to choose."
    worse = replace(study, other_law="dip", other_law_regret=0.2)
    assert "the dip law predicts that another one is smallest" in next_conclusion(worse, Metric.ERROR)
    doubtful = replace(study, doubt=findings.OnlyMeasuredSizes())
    assert next_conclusion(doubtful, Metric.ERROR).endswith(sentence(findings.OnlyMeasuredSizes()))
    assert "nothing to choose among" in next_conclusion(replace(study, one_size=True), Metric.ERROR)


def test_findings_are_notes_for_programs() -> None:
    study = replace(next_training(TABLE), doubt=findings.OnlyMeasuredSizes())
    body = json.loads(json.dumps(study_as_json(study, Metric.ERROR)))
    assert body["doubt"] == sentence(findings.OnlyMeasuredSizes())
    assert body["notes"][-1] == {"kind": "gains_assume_law", "text": sentence(findings.GainsAssumeLaw())}
    assert {own["kind"] for own in body["suggestions"]} <= {"new chain", "more levels", "another replicate"}

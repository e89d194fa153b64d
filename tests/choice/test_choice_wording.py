"""An answer and its findings in words, and the line it prints at a prompt."""

from dataclasses import replace

import pytest
import research_tables
from findings_of import findings_of

import prunecast
from prunecast.choice import Choice, Measure, Naming, findings
from prunecast.choice.findings import CountsUnknown, MeasuredPair, MeasuredRange
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.wording import advice, amount, network_name, promise, sentence, unit

OUTSIDE = findings.OutsideMeasured(ranges=(), pairs=(), density=None, lowest_density=0.01, avoidable=False)
BEYOND = findings.NetworkBeyondMeasured(
    depth=20, width=2, density=0.03914, stored_parameters=45469, share_of_largest=None
)
UNKNOWN = {"family": "mine", "dataset": "photos"}
SENTENCES = [
    (findings.ChannelsRemoved(), "In this table, pruning removes whole channels"),
    (
        findings.CostFromTable(measure=Measure.BYTES, flat=False),
        "Bytes come from the table, so only measured sizes were considered. Between",
    ),
    (
        findings.CostFromTable(measure=Measure.LATENCY, flat=True),
        "Pruning does not save time here, because zeros",
    ),
    (
        findings.TargetOutOfReach(
            target_error=0.11, confidence=0.5, budget=False, law="dip", least_unpruned=None
        ),
        "No network of these sizes reaches 0.11, so the answer is the network with the lowest expected loss.",
    ),
    (
        findings.TargetOutOfReach(
            target_error=0.1, confidence=0.9, budget=True, law="eq2", least_unpruned=0.2
        ),
        "reaches 0.1 with probability 0.9 within the budget, so the answer is the network with the lowest loss that "
        "90% of training runs reach. Eq. 2 never predicts a loss below the unpruned loss, which is 0.2000 at best.",
    ),
    (
        BEYOND,
        "depth 20, width 2 with 3.9% of its weights (45,469 stored parameters) is predicted to meet the target; use "
        "--sizes around",
    ),
    (
        replace(BEYOND, depth=None, stored_parameters=None, share_of_largest=0.031),
        "Outside the measured range, width 2 with 3.9% of its weights (3.1% of the largest measured network unpruned)",
    ),
    (findings.MeasuredWithinBudget(), "the law predicts nothing better within the budget"),
    (
        findings.MeasuredBeatsLaw(
            law="eq2", minimise=Measure.NONZERO, predicted_size=4500, share_of_largest=None
        ),
        "smaller than any network that Eq. 2 predicts to meet the target (4,500 non-zero weights)",
    ),
    (
        findings.ImpossibleByLawButMeasured(
            law="eq2", least_error=0.3367, dips=False, dipping_law="dip", measured=True
        ),
        "according to Eq. 2, which predicts 0.3367 at best and never predicts a loss below the unpruned loss (the law "
        "`dip` "
        "can). However, the answer was measured.",
    ),
    (
        findings.ImpossibleByLawButMeasured(
            law="dip", least_error=0.12, dips=True, dipping_law="dip", measured=False
        ),
        "which predicts 0.1200 at best. However, the rows measured for this network suggest that a new training run",
    ),
    (
        replace(OUTSIDE, ranges=(MeasuredRange(axis="width", value=2, lowest=0.0625, highest=1),)),
        "outside the measured range: width 2 (measured: 0.0625 to 1). Measure there before you rely on it.",
    ),
    (
        replace(
            OUTSIDE, ranges=(MeasuredRange(axis="num_examples", value=1e6, lowest=12500, highest=12500),)
        ),
        "number of examples 1,000,000 (measured: only 12,500)",
    ),
    (
        replace(
            OUTSIDE,
            pairs=(
                MeasuredPair(axes=("depth", "num_examples"), values=(8, 5e4), sides=(-1, 1), reach=12500),
            ),
            avoidable=True,
        ),
        "depth 8 with 50,000 examples (depths up to 8 were measured with at most 12,500). Measure there before you "
        "rely on it, or use --sizes within",
    ),
    (
        replace(
            OUTSIDE,
            pairs=(MeasuredPair(axes=("depth", "width"), values=(20, 0.25), sides=(1, -1), reach=0.5),),
            density=0.005,
        ),
        "depth 20 with width 1/4 (depths of 20 or more were measured with widths of at least 1/2), density 0.005 "
        "(measured down to 0.01)",
    ),
    (
        findings.ParametersUndetermined(parameters=("high_error", "gamma", "p"), symbols=("ε↑", "γ", "p′")),
        "The data do not determine ε↑, γ and p′, so treat this as a guess",
    ),
    (findings.AnsweredByLaw(law="eq2"), "The answer comes from Eq. 2."),
    (
        findings.UnprunedErrorPredicted(unpruned_error=0.1741, deviation=0.058),
        "The dense law and similar sizes predict an unpruned loss of 0.1741 (the law alone is off by 5.8% on sizes "
        "left out)",
    ),
    (findings.TrainedTooBriefly(), "because training was too short; train longer"),
    (findings.NoDenseLaw(), "too few configurations to fit a law of the unpruned loss"),
    (findings.ValidationErrorsUsed(), "uses validation errors"),
    (findings.FittedWithoutTooLarge(), "without networks that are too large for their data"),
    (
        findings.ExamplesMeasured(num_examples=5e4, measured=(3125, 5e4)),
        "The answer is for 50,000 training examples (measured: 3,125, 50,000).",
    ),
    (
        findings.DensityOnlyAtOtherSizes(num_examples=5e4, lowest_density=0.41),
        "With 50,000 examples, no network was pruned below density 0.41",
    ),
    (
        findings.SizesProportional(reason=CountsUnknown.NO_FAMILY, **UNKNOWN),
        "Sizes are relative, because the table does not name a family; add a column `weights` to get real counts.",
    ),
    (
        findings.CountsFromTable(reason=CountsUnknown.CLASSES_UNKNOWN, complete=False, **UNKNOWN),
        "because the number of classes of 'photos' is unknown. They leave out biases and normalisation",
    ),
    (
        findings.CountsFromTable(reason=CountsUnknown.CLASSES_UNKNOWN, complete=True, **UNKNOWN),
        "come from the table, because the number of classes of 'photos' is unknown.",
    ),
    (
        findings.WidthFromCounts(weights=1.2e8, largest=2.7e9),
        "share of the largest one's 2,700,000,000 parameters; this network has 120,000,000 before pruning.",
    ),
    (
        findings.SizeInterpolated(weights=12_500, never_pruned=310),
        "size (12,500 prunable weights and 310 other parameters before pruning) is interpolated from the sizes",
    ),
]


@pytest.mark.parametrize(("finding", "said"), SENTENCES)
def test_a_finding_in_words(finding: Finding, said: str) -> None:
    assert said in sentence(finding, Metric.LOSS)


def test_every_finding_of_an_answer_has_words() -> None:
    types = {one for one in vars(findings).values() if isinstance(one, type) and issubclass(one, Finding)}
    assert {one for one in types if "kind" in vars(one)} - {Finding} == {type(own) for own, _ in SENTENCES}


@pytest.mark.parametrize("reason", CountsUnknown)
def test_every_reason_why_counts_are_unknown_has_words(reason: CountsUnknown) -> None:
    assert ", because the " in sentence(findings.CountsFromTable(reason=reason, complete=True, **UNKNOWN))


@pytest.fixture(scope="module")
def chosen() -> Choice:
    table = prunecast.read(research_tables.path("cifar10-resnet20-24ep"), where={"num_examples": 50000})
    return prunecast.choose(prunecast.fit(table), target_error=0.2)


def test_the_answer_in_words(chosen: Choice) -> None:
    assert advice(chosen).startswith(f"Train depth 20, width {chosen.answer.width:.4g}, and keep ")
    expected = f"{chosen.answer.expected_error:.3f}"
    assert expected < "0.200"
    assert promise(chosen).startswith(f"Its error will be about {expected}; 95% of new runs fall in ")
    assert promise(chosen).endswith("80% meet the target of 0.2.")
    assert promise(replace(chosen, metric=Metric.LOSS)).startswith("Its loss will be about")
    missed = replace(chosen, met=False)
    assert advice(missed).startswith("The target of 0.2 is not met. The closest network is depth 20, width")
    whole = replace(chosen, answer=replace(chosen.answer, level=0))
    assert advice(whole).endswith("and do not prune it.")
    assert advice(replace(whole, met=False)).endswith("not pruned.")


def test_the_line_at_a_prompt(chosen: Choice) -> None:
    best = chosen.answer
    assert repr(chosen) == (
        f"<Choice by {chosen.law} from cifar10-resnet20-24ep.csv: depth 20, width {best.width:.4g}, density "
        f"{best.density:.4g}, level {best.level}, error {best.error:.4f} in [{best.interval[0]:.4f}, "
        f"{best.interval[1]:.4f}], target 0.2 met>"
    )


def test_names_and_sizes_are_those_of_the_table() -> None:
    counted, relative = Naming(axes=("depth", "width")), Naming(axes=("width",), largest=4.0)
    assert (network_name(counted, 20, 0.5), network_name(relative, 1, 0.5)) == (
        "depth 20, width 1/2",
        "width 1/2",
    )
    assert network_name(Naming(axes=()), 1, 1) == "the measured network"
    assert [amount(counted, size) for size in (12345.6, 3.14159)] == ["12,346", "3.142"]
    assert [amount(relative, size) for size in (4.0, 0.01)] == ["100%", "0.25%"]
    assert unit(counted, Measure.MULTIPLY_ADDS) == "multiply-adds"
    assert unit(relative, Measure.STORED) == "of the largest measured network unpruned"


@pytest.mark.parametrize(("error", "target"), [(0.19, 0.195), (0.21, 0.205)])
def test_a_row_on_the_other_side_of_the_target_tells_what_is_expected(error: float, target: float) -> None:
    """Noise is removed both ways, so a measured error alone does not say whether the target is met."""
    choice = prunecast.choose(research_tables.path("cifar10-resnet20-24ep"), target_error=0.2)
    met = error > target
    lucky = replace(choice.answer, source="measured", error=error, expected_error=0.2)
    told = replace(choice, met=met, answer=lucky, question=replace(choice.question, target_error=target))
    said = f"Its measured error is {error:.4f}, and a new training run is expected to get about 0.200; 95% of"
    assert promise(told).startswith(said)


def test_a_curve_that_meets_what_the_law_calls_impossible_says_so() -> None:
    law = prunecast.fit(prunecast.read(research_tables.path("cifar10-resnet20-24ep")), law="eq2")
    choice = prunecast.choose(law, target_error=0.3, num_examples=6250, width=1)
    (why,) = findings_of(choice, findings.ImpossibleByLawButMeasured)
    assert 0.3 < why.least_error < choice.answer.unpruned_error
    assert "However, the rows measured for this network suggest that a new training run" in sentence(why)
    dips = prunecast.choose(
        research_tables.path("cifar10-resnet20-24ep"), target_error=0.3, num_examples=6250, law="dip"
    )
    assert not findings_of(dips, findings.ImpossibleByLawButMeasured)

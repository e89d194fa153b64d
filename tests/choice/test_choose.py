"""Choices on the shipped table and on planted ones, against brute force over whole numbers of weights."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import research_tables
from choice_tables import misses
from findings_of import findings_of
from planted import WEIGHTS, law_error, planted

from prunecast import choose, fit, load, read
from prunecast.catalog import FAMILIES, architecture
from prunecast.choice import Choice, choose_each, findings, quantile
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.laws import Fit, member_counts
from prunecast.laws.findings import AxisNeverVaried
from prunecast.metric import Metric
from prunecast.wording import choice_as_json

MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))


def _brute(law: Fit, width: float, target: float, confidence: float) -> int:
    """The fewest weights of a measured width that keep the target by `predict`, trying every number.

    Numbers do not count where the rows measured next to them, on either side, all miss the target.
    """
    weights = architecture("cifar_resnet", depth=20, width=width, num_classes=10).weights
    kept = np.arange(1, weights + 1)
    found = law.predict(kept / weights, width=width, num_examples=50_000)
    spread = np.log(found.error / found.lower) / quantile(law, 0.975)
    met = np.log(found.error) + quantile(law, confidence) * spread <= np.log(target)
    size = next(c for c in law.configurations if (c.width, c.num_examples) == (width, 50_000))
    return next(int(n) for n in kept[met] if not misses(size, n / weights, target))


@pytest.mark.parametrize("confidence", [0.5, 0.8])
@pytest.mark.parametrize("target", [0.3, 0.45, 0.6])
def test_a_choice_among_measured_sizes_is_the_best_of_all_whole_numbers(
    shipped: Fit, target: float, confidence: float
) -> None:
    chosen = choose(shipped, target_error=target, sizes="measured", confidence=confidence)
    smallest = {}
    for width in (1 / 16, 1 / 8, 1 / 4):
        member = architecture("cifar_resnet", depth=20, width=width, num_classes=10)
        if shipped.predict(1.0, width=width, num_examples=50_000).error <= 0.9 * target:
            smallest[width] = _brute(shipped, width, target, confidence) + member.parameters - member.weights
    by_law = [n for n in (chosen.answer, *chosen.runners_up) if n.source == "law"]
    assert any(network.width in smallest for network in by_law)
    for network in by_law:
        if network.width in smallest:
            assert network.stored_parameters == pytest.approx(smallest[network.width], abs=2)
    assert chosen.answer.stored_parameters <= min(smallest.values()) + 2


def test_counts_are_the_familys_own_integers(shipped: Fit) -> None:
    best = choose(shipped, target_error=0.2).answer
    member = architecture("cifar_resnet", depth=20, width=best.width, num_classes=10)
    assert best.nonzero_parameters == round(best.density * member.weights)
    assert best.density * member.weights == pytest.approx(best.nonzero_parameters, abs=1e-6)
    assert best.stored_parameters - best.nonzero_parameters == member.parameters - member.weights
    assert best.multiply_adds == pytest.approx(best.density * member.multiply_adds)
    assert best.paper_size == pytest.approx(20 * best.width**2 * best.density)
    assert best.training_runs == best.level + 1 == int(np.ceil(np.log(best.density) / np.log(0.8))) + 1


def _agrees_with_predict(law: Fit, **asked: object) -> None:
    best = choose(law, target_error=0.25, **asked).answer
    told = law.predict(best.density, depth=best.depth, width=best.width, num_examples=best.num_examples)
    assert best.expected_error == pytest.approx(float(told.error), rel=1e-9)
    assert best.interval == pytest.approx((float(told.lower), float(told.upper)), rel=1e-9)
    assert best.unpruned_source == str(told.unpruned_source)


@pytest.mark.parametrize("asked", [{"sizes": "measured"}, {"width": 0.4}])
def test_the_answer_agrees_with_predict(shipped: Fit, asked: dict) -> None:
    _agrees_with_predict(shipped, **asked)


def test_the_answer_agrees_with_predict_between_depths() -> None:
    """Weights are no function of l·w²: narrow networks have more than that, and deep ones of built-in families, too."""
    frame = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    counts = [
        (member.weights, member.parameters)
        for member in (
            architecture("cifar_resnet", depth=int(depth), width=width, num_classes=10)
            for depth, width in zip(frame["depth"], frame["width"], strict=True)
        )
    ]
    weights = np.array(counts)[:, 0]
    of_family = frame.assign(family="cifar_resnet", dataset="cifar10", weights=weights)
    for counted in (frame, frame.assign(weights=weights), of_family):
        law = fit(read(counted.drop(columns=[c for c in ("nonzero",) if c in counted])), law="eq2")
        for asked in ({"depth": 14, "width": 0.4}, {"depth": 14}, {"width": 0.7}):
            _agrees_with_predict(law, **asked)


def test_a_measured_dip_answers_what_eq2_calls_impossible(eq2: Fit) -> None:
    """At measured sizes the size's own curve answers, whatever the law says."""
    chosen = choose(eq2, target_error=0.30, num_examples=6250, width=1)
    best = chosen.answer
    assert chosen.met
    assert (best.depth, best.width, best.level, best.unpruned_source) == (20, 1, 18, "measured")
    assert best.expected_error < 0.3 < best.unpruned_error
    (why,) = findings_of(chosen, findings.ImpossibleByLawButMeasured)
    assert (why.measured, why.dips, why.dipping_law) == (False, False, "dip")
    assert why.least_error > 0.30


def test_the_dip_law_promises_what_was_measured(dip: Fit) -> None:
    chosen = choose(dip, target_error=0.30, num_examples=6250)
    assert chosen.met
    assert not findings_of(chosen, findings.ImpossibleByLawButMeasured)


def test_an_impossible_target_gets_the_least_error_and_the_reason(shipped: Fit) -> None:
    chosen = choose(shipped, target_error=0.01)
    assert not chosen.met
    assert chosen.answer.error == min(n.error for n in (chosen.answer, *chosen.runners_up))
    assert chosen.answer.probability is not None
    assert chosen.answer.probability < 0.01
    why = chosen.findings[0]
    assert isinstance(why, findings.TargetOutOfReach)
    assert why.target_error == 0.01
    assert (why.least_unpruned is None) == shipped.dips


@pytest.mark.parametrize("confidence", [0.2, 0.5, 0.8, 0.95])
def test_the_target_is_met_with_the_confidence_asked_for(shipped: Fit, confidence: float) -> None:
    chosen = choose(shipped, target_error=0.25, confidence=confidence)
    assert chosen.met
    assert chosen.answer.probability >= confidence - 1e-3
    if chosen.answer.source == "law":
        assert chosen.answer.probability <= confidence + 0.02


def test_more_confidence_never_costs_less(shipped: Fit) -> None:
    sizes = [
        choose(shipped, target_error=0.25, confidence=c).answer.stored_parameters for c in (0.5, 0.7, 0.9)
    ]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    ("minimise", "budget", "confidence"),
    [("stored", 500, 0.5), ("stored", 50_000, 0.8), ("nonzero", 500, 0.8), ("nonzero", 50_000, 0.5)],
)
def test_the_least_error_within_a_budget_inverts_the_fewest_parameters(
    deep: Fit, budget: int, minimise: str, confidence: float
) -> None:
    """What its error stays below with the confidence asked for is a target that the budget meets, to 1%.

    A measured size whose neighbouring levels miss the target is pruned a little less.
    """
    asked = {"minimise": minimise, "num_examples": 50_000, "confidence": confidence}
    best = choose(deep, max_parameters=budget, **asked).answer
    size = getattr(best, f"{minimise}_parameters")
    assert 0.9 * budget < size <= budget
    spread = np.log(best.interval[1] / best.expected_error) / quantile(deep, 0.975)
    target = best.expected_error * np.exp(quantile(deep, confidence) * spread) * (1 + 1e-6)
    back = choose(deep, target_error=target, **asked)
    assert back.met
    assert getattr(back.answer, f"{minimise}_parameters") <= size * 1.01 + 1


@pytest.mark.parametrize("budget", [0.05, 1.0, 4.0])
def test_training_budgets_are_kept(shipped: Fit, budget: float) -> None:
    for asked in ({"target_error": 0.4}, {}):
        chosen = choose(shipped, max_training=budget, **asked)
        assert chosen.answer.training_cost <= budget * (1 + 1e-9)
    free = choose(shipped, target_error=0.4)
    assert (
        free.answer.stored_parameters
        <= choose(shipped, target_error=0.4, max_training=budget).answer.stored_parameters
    )


def test_predicted_sizes_widen_the_interval(shipped: Fit) -> None:
    chosen = choose(shipped, target_error=0.2, width=0.75)
    assert chosen.answer.unpruned_source == "predicted"
    own, wider = (choose(shipped, width=width, density=0.1).answer.interval for width in (0.75, 1.0))
    assert own[1] / own[0] > 1.05 * wider[1] / wider[0]
    (told,) = findings_of(chosen, findings.UnprunedErrorPredicted)
    assert told.unpruned_error == chosen.answer.unpruned_error


def test_an_answer_outside_the_measured_range_says_so(shipped: Fit) -> None:
    chosen = choose(shipped, target_error=0.01, width=2.0)
    assert chosen.answer.extrapolated
    (where,) = findings_of(chosen, findings.OutsideMeasured)
    assert where.ranges == (findings.MeasuredRange(axis="width", value=2, lowest=0.0625, highest=1),)
    assert not choose(shipped, target_error=0.01).answer.width > 1


def test_less_is_promised_the_further_outside_an_answer_lies(shipped: Fit) -> None:
    networks = [choose(shipped, width=width, density=0.1).answer for width in (0.75, 2.0, 4.0, 8.0)]
    assert [one.extrapolated for one in networks] == [False, True, True, True]
    widths = [np.log(one.interval[1] / one.interval[0]) for one in networks]
    assert widths == sorted(widths)
    assert widths[1] > 1.3 * widths[0]


def test_a_depth_that_never_varied_is_called_a_guess(shipped: Fit) -> None:
    chosen = choose(shipped, target_error=0.2, depth=8)
    (where,) = findings_of(chosen, findings.OutsideMeasured)
    assert [(one.axis, one.value, one.lowest, one.highest) for one in where.ranges] == [("depth", 8, 20, 20)]
    (guess,) = findings_of(chosen, AxisNeverVaried)
    assert (guess.axis, guess.value) == ("depth", 20)
    assert not findings_of(choose(shipped, target_error=0.2), AxisNeverVaried)


def test_it_is_smaller_than_pruning_the_network_that_matches(deep: Fit) -> None:
    """The paper's point: start larger than the network whose unpruned error is the target."""
    chosen = choose(deep, target_error=0.2, num_examples=50_000)
    assert chosen.matching is not None
    assert chosen.matching.unpruned_error <= 0.2
    assert chosen.matching.times_smaller > 1.2
    assert chosen.answer.unpruned_error < chosen.matching.unpruned_error


def test_the_planted_optimum_is_found() -> None:
    """With the law known, the answer is that of the planted formulas themselves."""
    table = read(planted(configurations=100, noise=0.001, depths=(20,), num_examples=(50_000, 25_000)))
    chosen = choose(fit(table), target_error=0.2, minimise="paper", num_examples=50_000)
    width, density = (g.ravel() for g in np.meshgrid(np.geomspace(0.03, 8, 400), np.geomspace(1e-3, 1, 800)))
    frame = pd.DataFrame({"depth": 20, "width": width, "num_examples": 50_000, "density": density})
    frame["weights"] = WEIGHTS * 20 * width**2
    good = law_error(frame) <= 0.2
    assert chosen.answer.paper_size == pytest.approx((20 * width**2 * density)[good].min(), rel=0.03)


def test_a_family_that_is_not_built_in_is_counted_as_the_table_counts() -> None:
    frame = planted(configurations=40, num_examples=(50_000,)).assign(family="mine")
    chosen = choose(read(frame), target_error=0.2)
    (how,) = findings_of(chosen, findings.CountsFromTable)
    assert (how.reason, how.family) == (findings.CountsUnknown.FAMILY_NOT_BUILT_IN, "mine")
    assert chosen.answer.multiply_adds is None
    assert chosen.answer.depth in set(frame["depth"])
    plain = choose(read(frame.drop(columns=["weights", "nonzero"])), target_error=0.2)
    assert findings_of(plain, findings.SizesProportional)
    assert plain.answer.nonzero_parameters == pytest.approx(plain.answer.paper_size)


def test_few_configurations_leave_only_measured_sizes() -> None:
    chosen = choose(read(MEASURED, where={"num_examples": 50_000, "width": 1}), target_error=0.2)
    assert chosen.answer.width == 1
    assert findings_of(chosen, findings.NoDenseLaw)


def test_network_epochs_are_known_for_preset_recipes(deep: Fit, eq2: Fit) -> None:
    """Levels after the first are trained from epoch 10 on, unless weights were removed before any training."""
    best = choose(deep, target_error=0.2).answer
    assert best.network_epochs == 160 + 150 * best.level
    assert _network_epochs_of(deep, "synflow") == 160 * best.training_runs
    assert _network_epochs_of(deep, "my-own") is None
    assert choose(eq2, target_error=0.2).answer.network_epochs is None


def _network_epochs_of(law: Fit, method: str) -> float | None:
    renamed = replace(law, origin=replace(law.origin, method=method))
    return choose(renamed, target_error=0.2).answer.network_epochs


def test_a_saved_law_answers_as_the_fit_does(shipped: Fit, tmp_path) -> None:
    shipped.save(tmp_path / "law.json")
    for asked in ({"target_error": 0.3, "num_examples": 6250}, {"target_error": 0.2}):
        saved, own = choose(tmp_path / "law.json", **asked), choose(load(tmp_path / "law.json"), **asked)
        assert saved == own
        assert saved.answer.width == choose(shipped, **asked).answer.width
        assert {"depth", "width", "density", "error", "interval", "probability", "nonzero_parameters"} <= set(
            json.loads(dumps(choice_as_json(saved)))
        )


MISTAKES = [
    ({}, "needs a target error, a budget of parameters, training or latency, or a density"),
    ({"target_error": -1.0}, "the target error must be a positive number, not -1"),
    ({"target_error": 1.5}, "is 1.5, but it must be below 1"),
    ({"target_error": float("nan")}, "the target error must be a positive number, not nan"),
    (
        {"target_error": 0.9},
        "guessing has an error of 0.9, so any network reaches 0.9; ask for a lower error",
    ),
    ({"target_error": 0.89}, "high plateau is at 0.8.*, so any network stays below 0.89 however far"),
    ({"target_error": 0.2, "confidence": 1.0}, "probability between 0 and 1, not 1"),
    (
        {"target_error": 0.2, "minimise": "flops"},
        "no measure is called 'flops'; choose one of stored, nonzero",
    ),
    ({"target_error": 0.2, "sizes": "all"}, "sizes can be measured, within, around, not 'all'"),
    ({"target_error": 0.2, "num_examples": -5.0}, "must be a positive number, not -5"),
    ({"target_error": 0.2, "num_examples": np.inf}, "examples must be a positive number, not inf"),
    (
        {"target_error": 0.6, "num_examples": 50.0},
        "the law's high plateau is at 0.8.*; ask for more",
    ),
    (
        {"target_error": 0.3, "depth": 20.5},
        "the depth of a cifar_resnet is a whole number of layers, not 20.5",
    ),
    ({"max_parameters": 3.0}, "fits the budget: .* at least|fits the budget: the smallest has"),
    ({"max_training": 1e-9}, "fits the budget: .* at least|fits the budget: the smallest has"),
]


@pytest.mark.parametrize(("asked", "message"), MISTAKES)
def test_mistakes_are_one_sentence(eq2: Fit, asked: dict, message: str) -> None:
    with pytest.raises(PrunecastError, match=message) as caught:
        choose(eq2, **asked)
    assert "\n" not in str(caught.value)


def test_multiply_adds_of_an_unknown_family_are_refused() -> None:
    table = read(planted(configurations=40).assign(family="mine"))
    with pytest.raises(PrunecastError, match="known for built-in families and tables with a column"):
        choose(table, target_error=0.2, minimise="multiply-adds")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("width", [1 / 16, 0.3, 1.0, 1.7])
def test_counts_by_depth_are_those_of_the_layers(family: str, width: float) -> None:
    for depth in list(FAMILIES[family].depths)[:33:4]:
        member = architecture(family, depth=depth, width=width, num_classes=10)
        fixed = member.parameters - member.weights
        assert member_counts(family, depth, width, 10) == (member.weights, fixed, member.multiply_adds)


@pytest.mark.slow
def test_new_trainings_meet_the_target_about_as_often_as_asked() -> None:
    """No fewer than asked, within two standard errors, and at most five points more.

    New training runs of one answer share its table, so tables are counted: over these 16, 82% met the target (standard
    error 1%), so answers are a little too cautious here.
    """
    rng, share = np.random.default_rng(0), []
    for seed in range(16):
        table = read(planted(configurations=36, num_examples=(50_000,), seed=seed))
        target = float(rng.uniform(0.12, 0.4))
        best = choose(table, target_error=target, confidence=0.8).answer
        frame = pd.DataFrame([{"depth": best.depth, "width": best.width, "density": best.density}])
        frame = frame.assign(num_examples=50_000, weights=WEIGHTS * best.depth * best.width**2)
        errors = law_error(frame)[0] * (1 + 0.034 * rng.standard_normal(200))
        share.append((errors <= target).mean())
    margin = 2 * np.std(share, ddof=1) / np.sqrt(len(share))
    assert margin < 0.05
    assert 0.8 - margin <= np.mean(share) <= 0.85


def test_what_an_answer_does_not_rest_on_is_said() -> None:
    """Short curves of the largest dataset, and parameters that nothing shows."""
    frame = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    begun = frame[(frame["num_examples"] < 50_000) | (frame["level"] < 5)]
    (told,) = findings_of(choose(read(begun), target_error=0.3), findings.DensityOnlyAtOtherSizes)
    assert (told.num_examples, told.lowest_density) == (50_000, pytest.approx(0.41, abs=0.005))
    assert not findings_of(choose(read(frame), target_error=0.3), findings.DensityOnlyAtOtherSizes)


def test_short_curves_leave_only_what_was_trained() -> None:
    """Nothing shows how the error rises, so no law is relied on but for a density that the question names."""
    frame = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    law = fit(read(frame[frame["level"] < 8]))
    for chosen in choose_each(law, [0.15, 0.2, 0.25, 0.3]):
        assert not chosen.verdict.usable
        assert {one.source for one in (chosen.answer, *chosen.runners_up)} == {"measured"}
        assert chosen.met == (chosen.answer.probability >= 0.8)
        assert not findings_of(chosen, findings.ParametersUndetermined)
        assert not findings_of(chosen, findings.ImpossibleByLawButMeasured)
    named = choose(law, density=0.05)
    assert (named.verdict.usable, named.answer.source) == (False, "law")


def test_a_density_that_flat_curves_reach_is_answered() -> None:
    """Nothing rises, but what was measured at a density shows what to expect there."""
    frame = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    law = fit(read(frame[frame["level"] < 3]), law="eq2")
    assert not law.rises
    best = choose(law, density=0.64).answer
    assert (best.level, best.error) == (2, pytest.approx(best.unpruned_error, rel=0.1))
    with pytest.raises(PrunecastError, match="no law of pruning can be fitted; prune further"):
        choose(law, density=0.3)


def test_a_budget_is_refused_with_what_trained_networks_need_where_only_they_answer() -> None:
    law = fit("cifar10-densenet-8ep")
    with pytest.raises(PrunecastError, match="the smallest that was trained has 16,424 stored parameters"):
        choose(law, max_parameters=16_000)
    assert choose(law, max_parameters=16_424).answer.source == "measured"


def test_a_law_that_is_not_relied_on_is_not_said_to_limit_errors() -> None:
    """One VGG's curve falls far below its unpruned error, and no law describes it."""
    law = fit("cifar10-vgg")
    missed, met, bought = (
        choose(law, **asked)
        for asked in ({"target_error": 0.26}, {"target_error": 0.3}, {"max_parameters": 1e5})
    )
    assert not law.dips
    assert not missed.verdict.usable
    assert missed.answer.error < missed.answer.unpruned_error
    (why,) = findings_of(missed, findings.TargetOutOfReach)
    assert why.least_unpruned is None
    (named,) = findings_of(choose(law, target_error=0.2, density=0.07), findings.TargetOutOfReach)
    assert named.least_unpruned is None
    assert not findings_of(met, findings.ImpossibleByLawButMeasured)
    assert not findings_of(bought, findings.MeasuredWithinBudget)


def test_a_dip_law_in_the_average_is_not_said_to_end_at_unpruned_errors() -> None:
    law = fit("cifar10-resnet-channels")
    assert (law.law, law.dips) == ("eq2", False)
    assert "dip" in {one.law for one in law.alternatives}
    (why,) = findings_of(choose(law, target_error=0.15), findings.TargetOutOfReach)
    assert why.least_unpruned is None


def test_choices_use_validation_errors_where_every_row_has_one() -> None:
    frame = planted(configurations=20, num_examples=(50_000,), depths=(20, 50))
    tested, held_out = frame.assign(error=frame["error"] * 0.9), frame.assign(validation_error=frame["error"])
    held_out = held_out.assign(error=tested["error"])
    chosen = choose(read(held_out), target_error=0.2)
    assert chosen.answer == choose(read(frame), target_error=0.2).answer
    assert chosen.answer != choose(read(tested), target_error=0.2).answer
    assert chosen.metric is Metric.VALIDATION_ERROR
    assert findings_of(chosen, findings.ValidationErrorsUsed)
    partly = held_out.assign(validation_error=held_out["validation_error"].where(held_out["level"] > 0))
    assert choose(read(partly), target_error=0.2).answer == choose(read(tested), target_error=0.2).answer


def test_choosing_and_studying_need_no_torch() -> None:
    code = "import sys, prunecast.choice, prunecast.studies; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_many_targets_at_once_are_answered_as_one_by_one(law: str) -> None:
    """Together with the answers that no target meets, and those that only measured networks give."""
    fitted = fit(read(planted(configurations=14, replicates=2, noise=0.05)), law=law)
    lowest = min(own.lowest_error for own in fitted.configurations)
    targets = [0.5 * lowest, 0.99 * lowest, 1.02 * lowest, 0.2, 0.4, 0.7]
    together = choose_each(fitted, targets)
    assert [one.met for one in together][:1] == [False]
    for target, found in zip(targets, together, strict=True):
        alone = choose(fitted, target_error=target)
        assert found.met == alone.met
        assert [type(one) for one in found.findings] == [type(one) for one in alone.findings]
        assert _networks(found) == [pytest.approx(own, rel=1e-9) for own in _networks(alone)]


def _networks(found: Choice) -> list[tuple[float, ...]]:
    every = [found.answer, *found.runners_up, *([] if found.further is None else [found.further])]
    return [
        (one.depth, one.width, one.density, one.error, *one.interval, one.probability or 0.0) for one in every
    ]

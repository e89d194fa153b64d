"""On planted tables the studies must find what was planted."""

from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from planted import TRUTH, planted

from prunecast.errors import PrunecastError
from prunecast.studies import (
    dips,
    extrapolation,
    forms,
    invariance,
    noise,
    optimality,
    sensitivity,
)
from prunecast.studies.findings import FewErrorsCrossed, NoNoiseOfReplicates, PaperSplitMissing
from prunecast.table import Table, read
from prunecast.wording import fitted_to, sentence

NOISE = 0.034


@lru_cache
def _table(configurations: int = 60, replicates: int = 1, scatter: float = NOISE) -> Table:
    return read(planted(configurations=configurations, replicates=replicates, noise=scatter, seed=1))


@pytest.fixture(scope="module")
def sensitive():
    return sensitivity(_table(), repeats=10)


def test_a_fit_to_everything_is_the_full_fit(sensitive) -> None:
    for samples in (sensitive.random_points, sensitive.random_configurations):
        last = samples[-1]
        assert last.mean_sigma == pytest.approx(sensitive.full.std, abs=1e-4)
        assert last.std_sigma < 1e-6
    assert sensitive.random_points[-1].count == sensitive.rows
    assert sensitive.random_configurations[-1].count == sensitive.configurations == 60


def test_more_measurements_make_fits_steadier(sensitive) -> None:
    for samples in (sensitive.random_points, sensitive.random_configurations):
        assert samples[0].std_sigma > 10 * samples[len(samples) // 2].std_sigma
        assert samples[0].mean_sigma > samples[len(samples) // 2].mean_sigma


def test_design_needs_fewer_measurements_than_chance(sensitive) -> None:
    needed = sensitive.needed
    assert needed["designed_configurations"] <= needed["random_configurations"] <= 10
    assert needed["designed_points"] < needed["random_points"] <= 60


def test_the_same_seed_gives_the_same_study() -> None:
    table = _table(12)
    assert sensitivity(table, repeats=3, seed=7) == sensitivity(table, repeats=3, seed=7)
    assert sensitivity(table, repeats=3, seed=7) != sensitivity(table, repeats=3, seed=8)


def test_the_papers_size_runs_with_either_law() -> None:
    study = sensitivity(_table(152), repeats=3, law="dip")
    assert (study.law, study.configurations) == ("dip", 152)
    assert len(study.random_points) == 20
    assert study.full.std < 0.045


def test_eq2_extrapolates_along_every_axis() -> None:
    study = extrapolation(_table())
    assert {"depth", "width", "num_examples", "networks"} <= {step.along for step in study.steps}
    for step in study.steps:
        if step.law == "eq2":
            assert abs(step.predicted.mean) < 0.02
            assert step.predicted.std < 1.6 * NOISE


def test_the_papers_split_is_used_where_it_was_measured() -> None:
    frame = planted(
        configurations=16, depths=(14, 20, 26, 50), widths=(0.125, 0.25, 0.5, 1), num_examples=(12_500,)
    )
    steps = {(step.along, step.law): step for step in extrapolation(read(frame)).steps}
    step = steps["paper", "eq2"]
    assert (step.fitted_configurations, step.predicted_configurations) == (4, 12)
    assert step.fitted_sizes == {"depth": (14, 20), "width": (0.125, 0.25)}
    assert fitted_to(step) == "the paper's sizes"
    assert abs(step.predicted.mean) < 0.07
    assert step.predicted.std < 0.06


def test_the_papers_split_is_taken_from_the_largest_dataset_that_has_it() -> None:
    few, many = (
        planted(configurations=9, depths=(8, 14, 20), widths=(0.125, 0.25, 0.5), num_examples=(examples,))
        for examples in (12_500, 50_000)
    )
    begun = pd.concat([few, many[many["depth"] == 20]])
    study = extrapolation(read(begun))
    assert {fitted_to(s) for s in study.steps if s.along == "paper"} == {"the paper's sizes, 12,500 examples"}
    missing = PaperSplitMissing(depths=(14, 20), widths=(0.125, 0.25))
    assert missing not in study.findings
    without = extrapolation(read(begun[begun["depth"] != 14]))
    assert missing in without.findings


def test_contours_have_the_planted_slopes() -> None:
    study = invariance(_table(120, scatter=0.002))
    for contours, exponent in zip(study.contours, (TRUTH["phi"], TRUTH["psi"]), strict=True):
        assert contours.count > 50
        assert contours.mean_slope == pytest.approx(-exponent, abs=0.1)
        assert contours.predicted == pytest.approx(-exponent, abs=0.02)
        assert contours.straightness > 0.99


def test_parameters_are_constant_where_one_law_was_planted() -> None:
    study = invariance(_table(120, scatter=0.002))
    for one in study.constancy:
        assert one.joint == pytest.approx(TRUTH[one.parameter], rel=0.02)
        assert one.median == pytest.approx(TRUTH[one.parameter], rel=0.05)
        assert one.spread < 0.25


@pytest.mark.slow
def test_the_planted_form_wins() -> None:
    study = forms(_table(30))
    best = [score.name for score in study.scores]
    assert set(best[:4]) == {"eq2", "dip", "sharp", "sharp-dip"}
    scores = {score.name: score for score in study.scores}
    for name, own in scores["eq2"].left_out_by_region.items():
        if study.rows_by_region[name] > 20:
            assert own.rms < 1.7 * NOISE
    worst = scores["rosenfeld-density"].left_out_by_region["power law"]
    assert worst.rms > 2 * scores["eq2"].left_out_by_region["power law"].rms


def test_no_dip_is_found_where_none_was_planted() -> None:
    study = dips(_table())
    assert abs(study.bias) < 0.02
    assert np.median([one.dip - one.by_noise for one in study.dips]) < 2 * NOISE


def test_a_planted_dip_is_found_with_its_bias() -> None:
    frame: pd.DataFrame = planted(configurations=40, noise=0.005)
    sunk = frame.assign(error=frame["error"] * (1 - 0.2 * (1 - frame["density"] ** 2)))
    study = dips(read(sunk))
    deepest = max(one.dip for one in study.dips)
    assert deepest == pytest.approx(0.2, abs=0.03)
    assert study.bias > 0.03
    assert study.eq2.mean > 0.02
    assert abs(study.dip_law.mean) < 0.005
    assert study.dip_law.std < study.eq2.std / 2


def test_means_of_replicates_show_less_of_a_dip_by_noise() -> None:
    one, four = (dips(_table(20, replicates=count)) for count in (1, 4))
    assert four.noise == pytest.approx(NOISE / 2, rel=0.1)
    assert four.noise < 0.7 * one.noise


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_the_law_finds_the_measured_optimum(law: str) -> None:
    study = optimality(_table(120, scatter=0.002), law=law)
    assert study.largest_miss < 0.25
    assert study.median_miss < 0.02
    assert study.within_quarter == 1
    assert study.mean_regret < 0.01
    assert study.lowest_rise_measured > 1
    assert study.lowest_rise_predicted > 1
    assert study.start.too_large_measured > 0
    assert study.start.too_small_measured > 0
    assert study.start.too_large_predicted == pytest.approx(study.start.too_large_measured, rel=0.3)


def test_single_curves_and_four_curves_find_the_law() -> None:
    study = optimality(_table(120, scatter=0.002))
    assert study.single_curves.usable > 30
    assert study.single_curves.high_error_off < 0.02
    assert study.single_curves.gamma_off < 0.05
    assert study.few_curves is not None
    assert study.few_curves.curves == 4
    assert study.few_curves.median_sigma < 0.02


def test_short_curves_of_a_larger_dataset_are_not_judged_unless_asked_for() -> None:
    """A table that grows has begun with the most examples and not got far there."""
    frame = planted(configurations=12, widths=(0.25, 0.5, 1.0), depths=(8, 20), num_examples=(50_000, 12_500))
    begun = read(frame[(frame["num_examples"] < 50_000) | (frame["level"] < 5)])
    study = optimality(begun)
    assert study.num_examples == 12_500
    (larger,) = (own for own in study.findings if isinstance(own, FewErrorsCrossed))
    assert (larger.num_examples, larger.judged) == (50_000, False)
    assert "--where num_examples=50000" in sentence(larger)
    assert optimality(read(frame)).num_examples == 50_000
    short = optimality(read(frame[frame["level"] < 8]))
    assert len(short.frontier) < 30
    assert short.findings[0] == FewErrorsCrossed(
        num_examples=short.num_examples, crossed=len(short.frontier), errors=60, judged=True
    )
    with pytest.raises(
        PrunecastError,
        match="with 70 examples, so there is nothing to choose from; ask for 50000, 12500",
    ):
        optimality(begun, num_examples=70)


def test_the_planted_noise_is_found_in_every_region() -> None:
    study = noise(_table(60, replicates=3))
    assert study.largest_replicates == 3
    assert study.overall.replicates == pytest.approx(NOISE, rel=0.05)
    for one in study.regions:
        if one.groups > 100:
            assert one.replicates == pytest.approx(NOISE, rel=0.15)
    assert study.findings == ()


def test_without_replicates_roughness_stands_in() -> None:
    study = noise(_table(60))
    assert study.overall.replicates is None
    assert study.overall.roughness == pytest.approx(NOISE, rel=0.1)
    assert study.findings == (NoNoiseOfReplicates(),)


ONE = {"depths": (20,), "widths": (1.0,), "num_examples": (50_000,), "configurations": 1}
TWO = {"depths": (20,), "widths": (0.5, 1.0), "num_examples": (50_000,), "configurations": 2}
MISTAKES = [
    (sensitivity, TWO, "needs three configurations"),
    (extrapolation, TWO, "train more widths or depths"),
    (invariance, ONE, "no invariant to test"),
    (forms, TWO, "needs at least three"),
    (optimality, ONE, "nothing to choose from; train more widths or depths"),
]


@pytest.mark.parametrize(("study", "size", "message"), MISTAKES)
def test_tables_too_small_are_refused_in_one_sentence(study, size: dict, message: str) -> None:
    with pytest.raises(PrunecastError, match=message) as caught:
        study(read(planted(**size)))
    assert "\n" not in str(caught.value)

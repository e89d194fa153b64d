"""What a fit finds out about itself: what the data do not determine, where it fails, how much to trust it."""

import numpy as np
import pandas as pd
import pytest
import research_tables
from findings_of import findings_of
from planted import TRUTH, law_error, planted, unpruned_error

from prunecast import tables
from prunecast.choice import choose
from prunecast.errors import PrunecastError
from prunecast.laws import fit, measured
from prunecast.laws.diagnose import levels_to, plateau_reached
from prunecast.laws.eq2 import single_error
from prunecast.laws.findings import (
    AtBound,
    AtChance,
    DipsIgnored,
    FewConfigurations,
    FlatProfile,
    LawPreference,
    Missed,
    MoreMissed,
    NoReplicates,
    NoRise,
    OutsideInterval,
    PlateauNotReached,
    Remedy,
    RiseTooShort,
    ScaleFollowsPlateau,
    TooLarge,
    TwoSizesOnly,
    WideInterval,
    WidenedIntervals,
)
from prunecast.table import read

ONE = {"configurations": 1, "depths": (20,), "widths": (0.5,), "num_examples": (50_000,)}


def chain(errors: list[float], **columns: float) -> pd.DataFrame:
    """One curve of levels of 20%."""
    return pd.DataFrame({"density": 0.8 ** np.arange(len(errors)), "error": errors, **columns})


COLLAPSE = [0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.12, 0.15, 0.3, 0.7, 0.92, 0.9]
"""A curve that passes from its low plateau to chance in three levels."""


def test_no_more_levels_are_asked_of_a_curve_at_chance():
    result = fit(read(chain(COLLAPSE), chance=0.9))
    assert result.at_chance == 2
    (plateau,), (rise,) = findings_of(result, PlateauNotReached), findings_of(result, RiseTooShort)
    assert (plateau.parameter, plateau.rows_near, plateau.chance_known) == ("high_error", 0, True)
    assert (rise.parameter, rise.rows_risen, rise.highest_error) == ("gamma", 2, 0.7)
    for short in (plateau, rise):
        assert (short.configurations, short.reached_chance, short.more_levels) == (1, 1, None)


def test_more_levels_are_asked_of_the_curves_that_can_have_them():
    early = chain(COLLAPSE[:8], width=2)
    result = fit(read(pd.concat([chain(COLLAPSE, width=1), early]), chance=0.9))
    (plateau,) = findings_of(result, PlateauNotReached)
    assert (plateau.configurations, plateau.reached_chance) == (2, 1)
    assert plateau.more_levels >= 1


def test_more_levels_are_counted_in_the_steps_of_the_table():
    """The same curve in steps of 51.2% (three levels of 20% at once) needs a third of the levels."""
    frame = planted(**ONE, noise=0.0)
    frame = frame[frame["error"] < 1.4 * unpruned_error(frame)]
    coarse = frame[frame["level"] % 3 == 0].assign(level=lambda f: f["level"] // 3)
    (fine,), (few,) = (findings_of(fit(read(own)), RiseTooShort) for own in (frame, coarse))
    assert fit(read(coarse)).kept_per_level == pytest.approx(0.512)
    assert few.more_levels == pytest.approx(fine.more_levels / 3, abs=1)
    assert few.more_levels < fine.more_levels


@pytest.mark.parametrize("kept", [0.8, 0.5, 0.35])
def test_coarse_levels_show_a_plateau_as_fine_ones_do(kept):
    """A curve of ten rows could not show one, however far down it went."""
    density = kept ** np.arange(round(np.log(0.001) / np.log(kept)))
    shape = {"high_error": 0.9, "gamma": 0.6, "p": 0.02}
    error = np.concatenate([single_error({**shape, "p": p}, 0.1, density) for p in (0.02, 0.01)])
    frame = pd.DataFrame(
        {"width": np.repeat([1, 2], len(density)), "density": np.tile(density, 2), "error": error}
    )
    assert plateau_reached(measured(read(frame)).points, None)
    assert not plateau_reached(measured(read(frame[frame["error"] < 0.6])).points, None)


def test_the_levels_to_a_plateau_are_counted_for_every_metric():
    """The plateau of a perplexity was sought below 1, so one more level was always said to be enough."""
    frame = planted(**ONE, noise=0.0)[:18]
    losses = frame.rename(columns={"error": "loss"}).assign(loss=lambda own: 300 * own["loss"])
    (error,) = findings_of(fit(read(frame)), PlateauNotReached)
    (loss,) = findings_of(fit(read(losses, metric="loss")), PlateauNotReached)
    assert loss.highest_error == pytest.approx(300 * error.highest_error)
    assert loss.more_levels == error.more_levels > 1


def test_where_the_plateaus_are_seen_and_the_rise_is_not_steps_should_be_smaller():
    """Pruning further adds nothing between the plateaus."""
    result = fit(read("svhn-resnet"), law="sharp")
    assert "high_error" not in result.undetermined
    (wide,) = findings_of(result, WideInterval, "gamma")
    assert wide.remedy is Remedy.SMALLER_STEPS
    assert (wide.lower, wide.upper) == result.interval("gamma")


def test_where_the_bends_are_sharper_than_the_law_smaller_steps_are_no_remedy():
    """Four times the rows leave γ as open as before."""
    table = read("svhn-resnet")
    result = fit(table)
    assert result.parameters["gamma"] == pytest.approx(20)
    (wide,) = findings_of(result, WideInterval, "gamma")
    assert wide.remedy is Remedy.SHARPER_LAW
    frame = table.frame.sort_values("density")
    places = np.log(frame["density"].to_numpy())
    fine = np.interp(np.arange(0, len(frame) - 1, 0.25), np.arange(len(frame)), places)
    error = np.exp(np.interp(fine, places, np.log(frame["error"].to_numpy())))
    finer = pd.DataFrame({"density": np.exp(fine), "error": error})
    again = fit(
        read(pd.concat([finer, frame[frame["density"] == 1][["density", "error"]]]), chance=table.chance)
    )
    (wide,) = findings_of(again, WideInterval, "gamma")
    assert wide.remedy is Remedy.SHARPER_LAW


def steep() -> pd.DataFrame:
    """Noisy errors that rise more steeply than the search for γ allows, and end before any plateau."""
    frame = planted(**ONE, noise=0.0)[:16]
    noise = np.random.default_rng(1).normal(0, 0.1, len(frame))
    rise = 0.1 * np.where(np.arange(len(frame)) < 11, 1, 2.0 ** (np.arange(len(frame)) - 11))
    return frame.assign(error=np.minimum(rise, 0.7) * np.exp(noise))


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_a_parameter_at_its_bound_is_not_determined_and_has_a_width(law):
    result = fit(read(steep(), chance=0.9), law=law)
    assert result.parameters["gamma"] == pytest.approx(20)
    assert "gamma" in result.undetermined
    low, high = result.interval("gamma")
    assert low < 15
    assert high == pytest.approx(20)


def jumping() -> pd.DataFrame:
    """Errors that jump at one density, which pulls γ to its upper bound."""
    frame = planted(configurations=4, depths=(20,), num_examples=(50_000,), noise=0.0)
    return frame.assign(error=np.where(frame["density"] > 0.1, 0.1, 0.8))


def test_a_bound_alone_makes_a_parameter_undetermined():
    """Without noise the profile is sharp, and only the bound shows it."""
    result = fit(read(jumping()))
    (bound,) = findings_of(result, AtBound, "gamma")
    assert bound.bound == pytest.approx(20)
    assert "gamma" in result.undetermined


def test_no_dip_is_something_known():
    """A dip of the least depth is the answer that there is none, so it does not count as undetermined."""
    result = fit(read(planted(configurations=20, seed=2, noise=0.0), chance=0.9), law="dip")
    assert result.parameters["dip"] == pytest.approx(1e-6, rel=0.1)
    (bound,) = findings_of(result, AtBound, "dip")
    assert bound.explained
    assert "dip" not in result.undetermined


@pytest.mark.parametrize("name", ["cifar10-vgg", "svhn-vgg", "svhn-densenet", "cifar10-resnet20-24ep-fleet"])
@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_what_is_not_determined_may_be_what_it_is_estimated_to_be(name, law):
    result = fit(read(name if tables.known(name) else research_tables.path(name)), law=law)
    assert result.undetermined
    for parameter in result.undetermined:
        low, high = result.interval(parameter)
        assert low <= result.parameters[parameter] <= high
        assert not findings_of(result, OutsideInterval, parameter)


FLAT = {
    "falling": [0.4, 0.36, 0.33, 0.31, 0.29, 0.29, 0.3, 0.33, 0.36],
    "constant": [0.1] * 9,
    "noisy": [0.1, 0.103, 0.098, 0.1, 0.101, 0.104, 0.097, 0.1, 0.102],
}


@pytest.mark.parametrize("shape", FLAT)
def test_curves_that_never_rise_determine_no_law(shape):
    table = read(chain(FLAT[shape]), chance=0.9)
    result = fit(table)
    first = result.findings[0]
    assert isinstance(first, NoRise)
    assert first.symbols == ("ε↑", "γ", "p′")
    assert first.margin == pytest.approx(0.1)
    # From ε_np to 3 ε_np at the usual slope: log 3/(0.6·log 1.25) is 8.2.
    assert first.more_levels == 9
    assert not result.rises
    assert result.undetermined == ("high_error", "gamma", "p")
    assert result.regions["low plateau"].rows == result.rows
    trained = choose(table, target_error=2 * result.configurations[0].unpruned_error)
    assert (trained.answer.source, trained.verdict.trust) == ("measured", "unusable")
    assert first in trained.findings


def test_a_fixed_plateau_stays_known_where_no_curve_rises():
    result = fit(read(chain(FLAT["noisy"]), chance=0.9), high_error="chance")
    assert result.undetermined == ("gamma", "p")


def test_exponents_are_not_determined_where_no_curve_rises():
    frame = pd.concat([chain([error] * 9, width=w) for w, error in ((1, 0.1), (2, 0.08), (4, 0.07))])
    assert fit(read(frame, chance=0.9)).undetermined == ("high_error", "gamma", "p", "psi")


def test_a_fall_is_named_where_no_curve_rises_and_the_law_that_follows_it_sees_a_rise():
    table = read(chain(FLAT["falling"]), chance=0.9)
    (dips,) = findings_of(fit(table), DipsIgnored)
    assert dips.following_law == "dip"
    assert fit(table, law="dip").rises


def test_a_flat_curve_that_falls_to_chance_at_once_needs_smaller_steps():
    first = fit(read(chain([0.1] * 8 + [0.91]), chance=0.9)).findings[0]
    assert isinstance(first, NoRise)
    assert (first.reached_chance, first.more_levels) == (1, None)


def test_a_table_whose_plateau_is_guessed_too_low_is_not_told_to_have_more_examples():
    """Noise above the edge of the low plateau is no rise yet: what was measured is known, what lies beyond is not."""
    table = read(chain([0.1, 0.09, 0.112, 0.08, 0.09, 0.085, 0.08, 0.09, 0.08]), chance=0.9)
    result = fit(table)
    assert result.rises
    assert result.undetermined == ("high_error", "gamma", "p")
    found = choose(table, target_error=0.09)
    assert not found.met
    assert found.answer.source == "measured"
    assert found.answer.interval[0] < 0.08 < 0.112 < found.answer.interval[1]
    reached = choose(table, target_error=0.12)
    assert (reached.met, reached.answer.source) == (True, "measured")


def test_an_error_that_a_usable_law_does_not_reach_is_refused():
    with pytest.raises(PrunecastError, match=r"do not show how far the error rises .* prune further"):
        choose("cifar10-vit", target_error=0.8)


def test_curves_that_never_leave_the_low_plateau():
    frame = planted(configurations=6, seed=2, noise=0.01)
    frame = frame[frame["error"] < 1.15 * unpruned_error(frame)]
    result = fit(read(frame))
    (rise,) = findings_of(result, RiseTooShort)
    assert rise.parameter == "gamma"
    assert rise.highest_error == pytest.approx(frame["error"].max())
    # From 1.15 ε_np to 3 ε_np at a slope of about γ: log(3/1.15)/(0.6·log 1.25) is 7.2.
    assert 5 <= rise.more_levels <= 12
    assert {"high_error", "gamma", "p"} <= set(result.undetermined)


def test_more_levels_are_those_the_law_predicts():
    frame = planted(**ONE, noise=0.0)
    top, target = frame["error"][frame["level"] == 20].item(), 0.4
    reached = frame[frame["error"] >= target]["level"].min()
    assert top < target
    assert 20 + levels_to(target, top, TRUTH["gamma"], 0.8) == pytest.approx(reached, abs=1)
    assert levels_to(0.01, top, 0.5, 0.8) == 1


@pytest.mark.parametrize(("axis", "parameter"), [("depth", "phi"), ("width", "psi")])
def test_two_sizes_determine_an_exponent_weakly(axis, parameter):
    two = {"depth": {"depths": (14, 50)}, "width": {"widths": (0.25, 1.0)}}[axis]
    result = fit(read(planted(configurations=12, seed=1, **two)))
    (weak,) = findings_of(result, TwoSizesOnly)
    assert (weak.parameter, weak.axis) == (parameter, axis)
    assert not findings_of(fit(read(planted(configurations=40, seed=1))), TwoSizesOnly)


def test_an_exponent_that_noise_hides_is_not_determined():
    frame = planted(configurations=4, widths=(1.0, 1.05), depths=(20,), noise=0.1, seed=3)
    result = fit(read(frame))
    (wide,) = findings_of(result, WideInterval, "psi")
    assert wide.axis == "width"
    low, high = result.interval("psi")
    assert high - low > 1.5


def cut_at(frame, error):
    """The table without larger errors, unpruned networks apart."""
    return frame[(frame["error"] < error) | (frame["level"] == 0)]


NARROW = {"widths": (0.125, 0.25, 0.5), "num_examples": (50_000, 25_000), "seed": 1}


def test_without_a_chance_error_curves_must_flatten():
    frame = planted(configurations=10, **NARROW)
    whole, cut = (measured(read(f)).points for f in (frame, cut_at(frame, 0.6)))
    assert plateau_reached(whole, None)
    assert not plateau_reached(cut, None)
    result = fit(read(cut_at(frame, 0.6)))
    assert "high_error" in result.undetermined
    low, high = result.interval("high_error")
    assert low < TRUTH["high_error"] < high
    (plateau,), (scale,) = findings_of(result, PlateauNotReached), findings_of(result, ScaleFollowsPlateau)
    assert not plateau.chance_known
    assert (scale.parameter, scale.symbol, scale.plateau_symbol, scale.slope_symbol) == ("p", "p′", "ε↑", "γ")


def test_an_open_high_error_allows_for_noise_in_the_largest_error():
    """Curves that end just short of their plateau: the largest of their noisy errors lies above it."""
    above = 0
    for seed in range(12):
        frame = planted(configurations=5, seed=seed)
        result = fit(read(frame))
        low, high = result.interval("high_error")
        above += frame["error"].max() > TRUTH["high_error"]
        assert low < TRUTH["high_error"] < high
    assert above >= 3


def test_with_a_chance_error_rows_must_come_near_it():
    frame = planted(configurations=10, **NARROW)
    assert plateau_reached(measured(read(frame)).points, 0.9)
    assert not plateau_reached(measured(read(cut_at(frame, 0.75))).points, 0.9)


def test_high_error_at_chance_needs_a_chance():
    table = read(planted(configurations=5))
    with pytest.raises(PrunecastError, match=r"chance error is not known, because .*; give it as a number"):
        fit(table, high_error="chance")


def test_flat_profiles_are_named_once_and_only_where_nothing_worse_is_known():
    """Two noisy curves leave γ, p′ and ψ so loose that half or double fits as well."""
    grid = {"depths": (20,), "widths": (1.0, 0.25), "num_examples": (50000,)}
    loose = fit(read(planted(configurations=2, seed=1, noise=0.2, **grid), chance=0.9))
    (flat,) = findings_of(loose, FlatProfile, "p")
    assert flat.symbol == "p′"
    ratios = [value / loose.parameters["p"] for value in flat.values]
    assert all(ratio == pytest.approx(0.5) or ratio == pytest.approx(2) for ratio in ratios)
    for seed in range(4):
        result = fit(read(planted(configurations=2, seed=seed, noise=0.3, **grid), chance=0.9))
        flat = [finding.parameter for finding in findings_of(result, FlatProfile)]
        assert len(flat) == len(set(flat))
        assert not set(flat) & set(result.undetermined)


def off_the_law(frame: pd.DataFrame, places: pd.DataFrame) -> pd.DataFrame:
    """The table with some configurations whose pruned errors are those of networks pruned four levels further."""
    names = list(places)
    odd = frame[names].merge(places.assign(odd=True), on=names, how="left")["odd"].notna().to_numpy()
    odd = odd & (frame["level"] > 0).to_numpy()
    shifted = frame[odd].assign(density=lambda f: f["density"] * 0.8**4)
    return frame.assign(error=frame["error"].where(~odd, pd.Series(law_error(shifted), frame.index[odd])))


def test_configurations_that_the_law_misses_are_listed_worst_first():
    frame = planted(configurations=80, seed=7, noise=0.01).reset_index(drop=True)
    places = frame[["depth", "width", "num_examples"]].drop_duplicates()
    one = fit(read(off_the_law(frame, places[:1])))
    first = findings_of(one, Missed)[0]
    assert (first.depth, first.width, first.num_examples) == tuple(places.iloc[0])
    own = next(c for c in one.configurations if (c.depth, c.width, c.num_examples) == tuple(places.iloc[0]))
    assert (first.mean, first.std) == (own.deviation.mean, own.deviation.std)
    many = fit(read(off_the_law(frame, places[::10])))
    missed = [np.hypot(finding.mean, finding.std) for finding in findings_of(many, Missed)]
    (more,) = findings_of(many, MoreMissed)
    assert missed == sorted(missed, reverse=True)
    assert (len(missed), more.count) == (5, 3)


def test_plain_noise_is_not_called_a_dip():
    for seed in range(3):
        assert not findings_of(fit(read(planted(configurations=30, seed=seed))), DipsIgnored)


def test_a_planted_dip_is_found_and_named():
    frame = planted(configurations=20, seed=3)
    dip = 1 - 0.15 * (1 - frame["density"] ** 2) * (frame["density"] > 0.1)
    table = read(frame.assign(error=frame["error"] * dip))
    assert not findings_of(fit(table), DipsIgnored)  # the law that is fitted follows it
    result = fit(table, law="eq2")
    (dips,) = findings_of(result, DipsIgnored)
    assert 1 <= dips.dipping <= dips.configurations == 20
    assert 0.1 < dips.deepest < 0.3
    assert dips.mean_deviation == result.deviation.mean


def test_networks_too_large_for_their_data_are_counted_until_they_are_left_out():
    frame = planted(configurations=12, num_examples=(50_000,), noise=0.0)
    largest = frame["weights"] == frame["weights"].max()
    frame = frame.assign(error=frame["error"].where(~largest, 0.6))
    table = read(frame)
    (large,) = findings_of(fit(table), TooLarge)
    worst = frame[largest].iloc[0]
    assert (large.too_large, large.configurations) == (1, 12)
    assert (large.depth, large.width, large.num_examples) == (worst["depth"], worst["width"], 50_000)
    without = fit(table.without_too_large())
    assert without.selected
    assert not findings_of(without, TooLarge)


def test_rows_at_chance_are_counted(shipped):
    assert findings_of(fit(shipped), AtChance) == [AtChance(rows=2, chance=0.9)]


@pytest.mark.parametrize(
    ("configurations", "few"),
    [
        (2, [FewConfigurations(configurations=2)]),
        (10, [WidenedIntervals(configurations=10, enough=30)]),
        (31, []),
    ],
)
def test_few_configurations_are_named(configurations, few):
    result = fit(read(planted(configurations=configurations, replicates=2, seed=1)))
    assert [own for own in result.findings if isinstance(own, FewConfigurations | WidenedIntervals)] == few
    assert not findings_of(result, NoReplicates)
    single = fit(read(planted(configurations=configurations, seed=1)))
    assert len(findings_of(single, NoReplicates)) == 1


def test_the_law_that_predicts_better_is_named():
    frame = planted(configurations=12, seed=3)
    dipped = read(frame.assign(error=frame["error"] * (1 - 0.15 * (1 - frame["density"] ** 2))))
    for law, other, clear in (("eq2", "eq2", True), ("sharp", "sharp", True), ("dip", "sharp-dip", False)):
        result = fit(dipped, law=law)
        (preference,) = findings_of(result, LawPreference)
        assert (preference.law, preference.best, preference.best_source) == (law, "dip", "dip")
        assert (preference.other, preference.clear) == (other, clear)
        assert preference.best_rms == result.held_out["dip"] < preference.other_rms == result.held_out[other]
    (equal,) = findings_of(fit(read(frame), law="eq2"), LawPreference)
    assert not equal.clear


def test_levels_numbered_by_the_million_are_answered_in_their_own_unit():
    assert levels_to(3.0, 1.0, 0.6, 0.8) == 9
    assert levels_to(3.0, 1.0, 0.6, 1.0) > 1_000_000

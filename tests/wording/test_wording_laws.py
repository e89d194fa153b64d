"""Every finding of a fit has its sentence, about errors and about losses."""

import re

import pytest

from prunecast.findings import Finding
from prunecast.laws import findings as f
from prunecast.metric import Metric
from prunecast.wording import finding_as_json, sentence, sentences

CURVES = {"configurations": 3, "reached_chance": 0, "more_levels": 4}
SOME = {"configurations": 3, "reached_chance": 1, "more_levels": 4}
ALL = {"configurations": 1, "reached_chance": 1, "more_levels": None}
PLACE = {"depth": 20.0, "width": 0.25, "num_examples": 50000.0}
GAMMA = {"parameter": "gamma", "symbol": "γ"}
HIGH = {"parameter": "high_error", "symbol": "ε↑"}
LAWS = {"best_rms": 0.02, "other_rms": 0.05, "best_title": "the dip law", "other_title": "Eq. 2"}

SENTENCES: list[tuple[Finding, str]] = [
    (
        f.NoRise(symbols=("ε↑", "γ"), margin=0.1, **CURVES),
        "No curve rises more than 10% above its unpruned {word}, so the data do not determine ε↑ and γ; prune 4 more "
        "levels.",
    ),
    (
        f.NoRise(symbols=("ε↑",), margin=0.1, **SOME),
        "No curve rises more than 10% above its unpruned {word}, although 1 reaches chance, so the data do not "
        "determine ε↑; prune the others 4 more levels or prune in smaller steps (a smaller `fraction`).",
    ),
    (
        f.NoRise(symbols=("ε↑",), margin=0.1, **ALL),
        "No curve rises more than 10% above its unpruned {word} before it reaches chance, so the data do not determine "
        "ε↑; prune in smaller steps (a smaller `fraction`).",
    ),
    (
        f.PlateauNotReached(highest_error=0.6, rows_near=0, chance_known=True, **HIGH, **CURVES),
        "ε↑ is not determined: no curve comes near its high plateau (the largest {word} is 0.6); prune 4 more levels, "
        "or fix it with --high-error chance.",
    ),
    (
        f.PlateauNotReached(highest_error=0.6, rows_near=0, chance_known=False, **HIGH, **CURVES),
        "ε↑ is not determined: no curve comes near its high plateau (the largest {word} is 0.6); prune 4 more levels.",
    ),
    (
        f.PlateauNotReached(highest_error=0.8, rows_near=1, chance_known=True, **HIGH, **SOME),
        "ε↑ is not determined: only 1 row is near the high plateau, although 1 of 3 curves reaches chance, because it "
        "rises too steeply for these levels; prune the others 4 more levels or prune in smaller steps (a smaller "
        "`fraction`), or fix it with --high-error chance.",
    ),
    (
        f.RiseTooShort(highest_error=0.15, rows_risen=0, **GAMMA, **CURVES),
        "γ is not determined: the {word} never exceeds 0.15; prune 4 more levels.",
    ),
    (
        f.RiseTooShort(highest_error=0.7, rows_risen=2, **GAMMA, **ALL),
        "γ is not determined: only 2 rows are on the rise, although the curve reaches chance, because it rises too "
        "steeply for these levels; prune in smaller steps (a smaller `fraction`).",
    ),
    (
        f.WideInterval(lower=0.1, upper=20.0, remedy=f.Remedy.PRUNE_FURTHER, **GAMMA),
        "γ is not determined: anything from 0.10 to 20 fits; prune further, so that more rows lie between the two "
        "plateaus.",
    ),
    (
        f.WideInterval(lower=0.1, upper=20.0, remedy=f.Remedy.SMALLER_STEPS, **GAMMA),
        "γ is not determined: anything from 0.10 to 20 fits; prune in smaller steps (a smaller `fraction`), so that "
        "more rows lie between the two plateaus.",
    ),
    (
        f.WideInterval(lower=0.1, upper=20.0, remedy=f.Remedy.SHARPER_LAW, **GAMMA),
        "γ is not determined: anything from 0.10 to 20 fits, because the bends are sharper than this law's; more rows "
        "would not change that, but a law with sharper bends may fit (--law sharp).",
    ),
    (
        f.WideInterval(parameter="psi", symbol="ψ", lower=-1.0, upper=2.0, axis="width"),
        "ψ is not determined: anything from −1.0 to 2.0 fits; train more widths.",
    ),
    (
        f.WideInterval(parameter="p", symbol="p′", lower=1e-4, upper=0.1),
        "p′ is not determined: anything from 0.00010 to 0.100 fits.",
    ),
    (
        f.ScaleFollowsPlateau(parameter="p", symbol="p′", plateau_symbol="ε↑", slope_symbol="γ"),
        "p′ is not determined because ε↑ is not; only p′·ε↑^(1/γ) is known.",
    ),
    (
        f.ScaleFollowsPlateau(parameter="p", symbol="p′", plateau_symbol="ε↑", slope_symbol=""),
        "p′ is not determined because ε↑ is not.",
    ),
    (
        f.TwoSizesOnly(parameter="phi", symbol="φ", axis="depth"),
        "φ is based on only two depths, so it cannot be checked; train a third.",
    ),
    (
        f.AtBound(bound=20.0, explained=False, **GAMMA),
        "γ hit its search limit (20), so its estimate is unreliable.",
    ),
    (f.AtBound(bound=20.0, explained=True, **GAMMA), "γ hit its search limit (20)."),
    (
        f.FlatProfile(values=(0.25, 1.0), **GAMMA),
        "γ is poorly determined: 0.25 or 1 would fit almost as well if the other parameters are refitted.",
    ),
    (
        f.OutsideInterval(**GAMMA),
        "The estimate of γ lies outside its interval: the paper's fit treats measured unpruned {words} as exact. The "
        "interval does not, and here that makes a difference.",
    ),
    (
        f.DipsIgnored(
            dipping=2, configurations=5, deepest=0.12, mean_deviation=0.021, following_law="dip", **PLACE
        ),
        "In 2 of 5 configurations the {word} clearly falls below its unpruned value, by up to 12% (depth 20, width "
        "1/4, 50,000 examples). The law is flat there, so it overestimates: its mean deviation is +2.1%. --law dip "
        "follows the dip.",
    ),
    (
        f.DipsIgnored(
            dipping=2, configurations=5, deepest=0.12, mean_deviation=0.021, following_law="", **PLACE
        ),
        "In 2 of 5 configurations the {word} clearly falls below its unpruned value, by up to 12% (depth 20, width "
        "1/4, 50,000 examples). The law is flat there, so it overestimates: its mean deviation is +2.1%.",
    ),
    (
        f.TooLarge(too_large=1, configurations=5, **PLACE),
        "1 of 5 configurations is too large for its data: unpruned, a smaller network does better than depth 20, "
        "width 1/4, 50,000 examples. The paper leaves such networks out. To do the same, use --without-too-large "
        "(`Table.without_too_large` in Python).",
    ),
    (
        f.TooLarge(too_large=2, configurations=5, **PLACE),
        "2 of 5 configurations are too large for their data: unpruned, a smaller network does better than depth 20, "
        "width 1/4, 50,000 examples. The paper leaves such networks out. To do the same, use --without-too-large "
        "(`Table.without_too_large` in Python).",
    ),
    (
        f.Missed(mean=-0.08, std=0.03, **PLACE),
        "The law fits depth 20, width 1/4, 50,000 examples badly: deviation −8.0% ± 3.0%.",
    ),
    (f.MoreMissed(count=3), "It fits 3 more configurations just as badly."),
    (
        f.FewConfigurations(configurations=1),
        "With 1 configuration the intervals are based on the scatter of rows alone and assume that the law is right; "
        "more "
        "configurations would test it.",
    ),
    (
        f.WidenedIntervals(configurations=10, enough=30),
        "With 10 configurations (fewer than 30) the intervals are widened on purpose: in simulations they cover 96 to "
        "100% instead of 95%.",
    ),
    (
        f.NoReplicates(),
        "Without replicates, the noise of the measurements is unknown; train a second replicate to measure it.",
    ),
    (f.AtChance(rows=1, chance=0.9), "1 row no better than chance (0.9) is left out of the fit."),
    (f.AtChance(rows=1200, chance=0.9), "1,200 rows no better than chance (0.9) are left out of the fit."),
    (
        f.LawPreference(law="eq2", best="dip", best_source="dip", other="eq2", clear=True, **LAWS),
        "The data prefer the dip law (--law dip): 2.0% versus 5.0% on configurations left out.",
    ),
    (
        f.LawPreference(law="dip", best="dip", best_source="dip", other="eq2", clear=True, **LAWS),
        "The data prefer this law to Eq. 2: 2.0% versus 5.0% on configurations left out.",
    ),
    (
        f.LawPreference(law="eq2", best="dip", best_source="dip", other="eq2", clear=False, **LAWS),
        "The dip law and Eq. 2 predict about equally well: 2.0% versus 5.0% on configurations left out.",
    ),
    (
        f.LawsAveraged(titles=("Eq. 2", "the dip law"), weights=(0.75, 0.25), rms=(0.05, 0.052)),
        "Predictions average over Eq. 2 (75%) and the dip law (25%), weighted by how well they predict configurations "
        "left out (within 5.0% and 5.2%).",
    ),
    (
        f.AxisNeverVaried(axis="width", value=0.25),
        "The width was 0.25 in every measurement, so the data do not show the effect of another width. Treat this "
        "prediction as a guess; its interval is too narrow.",
    ),
    (
        f.AxisNeverVaried(axis="num_examples", value=50000.0),
        "The number of examples was 50,000 in every measurement, so the data do not show the effect of another "
        "number of examples. Treat this prediction as a guess; its interval is too narrow.",
    ),
]


@pytest.mark.parametrize(("finding", "expected"), SENTENCES)
@pytest.mark.parametrize("metric", [Metric.ERROR, Metric.VALIDATION_ERROR, Metric.LOSS, Metric("1-f1")])
def test_each_finding_has_its_sentence(finding, expected, metric):
    assert sentence(finding, metric) == expected.format(word=metric.word, words=metric.plural)


def test_every_finding_of_a_fit_is_in_the_table():
    assert {type(finding) for finding, _ in SENTENCES} == {*f.TYPES.values(), f.AxisNeverVaried}


@pytest.mark.parametrize("finding", [finding for finding, _ in SENTENCES])
def test_no_sentence_about_losses_speaks_of_errors(finding):
    assert not re.search(r"\berrors?\b", sentence(finding, Metric.LOSS).replace("--high-error", ""))


def test_programs_get_the_kind_the_sentence_and_the_numbers():
    body = finding_as_json(f.AtChance(rows=2, chance=0.9), Metric.ERROR)
    assert body == {
        "kind": "chance",
        "text": "2 rows no better than chance (0.9) are left out of the fit.",
        "rows": 2,
        "chance": 0.9,
    }


def test_several_estimates_outside_their_intervals_are_one_sentence() -> None:
    every = [
        f.OutsideInterval(parameter=name, symbol=symbol) for name, symbol in (("gamma", "γ"), ("phi", "φ"))
    ]
    bound = f.AtBound(bound=20.0, explained=True, **GAMMA)
    assert sentences([*every, bound, every[0]], Metric.LOSS) == [
        "The estimates of γ and φ lie outside their intervals: the paper's fit treats measured unpruned losses as "
        "exact. The intervals do not, and here that makes a difference.",
        "γ hit its search limit (20).",
        sentence(every[0], Metric.LOSS),
    ]

"""The findings of a fit in words."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from prunecast.laws import Fit, Verdict, verdict
from prunecast.laws import findings as found
from prunecast.metric import Metric
from prunecast.table import Table
from prunecast.text import capital, listed, plural
from prunecast.wording import numbers
from prunecast.wording.core import finding_as_json, words, words_together

SMALLER_STEPS = "prune in smaller steps (a smaller `fraction`)"


def axis_name(axis: str) -> str:
    """An axis in a sentence: depth, width, number of examples."""
    return "number of examples" if axis == "num_examples" else axis


def configuration(depth: float, width: float, num_examples: float) -> str:
    """A configuration in a sentence, without a depth or number of examples that its table does not give."""
    sizes = [f"depth {numbers.size(depth)}"] if depth != 1 else []
    sizes += [f"width {numbers.size(width)}"]
    sizes += [f"{numbers.count(num_examples)} examples"] if num_examples != 1 else []
    return ", ".join(sizes)


def _advice(finding: found.CurvesTooShort) -> str:
    """More levels for the curves that can have them, smaller steps for those that reached chance."""
    steps = []
    if finding.more_levels is not None:
        which = "the others " if finding.reached_chance else ""
        steps.append(f"prune {which}{plural(finding.more_levels, 'more level')}")
    if finding.reached_chance:
        steps.append(SMALLER_STEPS)
    return " or ".join(steps)


def _too_steep(finding: found.CurvesTooShort, rows: int, place: str) -> str:
    """Curves that reach chance have few rows on the way: they rise too steeply for their levels."""
    curves = (
        f"{finding.reached_chance} of {finding.configurations} curves"
        if finding.configurations > 1
        else "the curve"
    )
    verb, they = ("reaches", "it rises") if finding.reached_chance == 1 else ("reach", "they rise")
    seen = plural(rows, "row", "is", "are")
    return (
        f"only {seen} {place}, although {curves} {verb} chance, because {they} too steeply for these levels"
    )


@words.register
def _no_rise(finding: found.NoRise, metric: Metric) -> str:
    seen = f"No curve rises more than {finding.margin:.0%} above its unpruned {metric.word}"
    if finding.reached_chance:
        everywhere = finding.reached_chance == finding.configurations
        verb = "reaches" if finding.reached_chance == 1 else "reach"
        seen += (
            " before it reaches chance"
            if everywhere
            else f", although {finding.reached_chance} {verb} chance"
        )
    return f"{seen}, so the data do not determine {listed(finding.symbols)}; {_advice(finding)}."


@words.register
def _plateau(finding: found.PlateauNotReached, metric: Metric) -> str:
    highest = numbers.target(finding.highest_error, 2)
    seen = f"no curve comes near its high plateau (the largest {metric.word} is {highest})"
    if finding.reached_chance and finding.chance_known:
        seen = _too_steep(finding, finding.rows_near, "near the high plateau")
    fix = ", or fix it with --high-error chance" if finding.chance_known else ""
    return f"{finding.symbol} is not determined: {seen}; {_advice(finding)}{fix}."


@words.register
def _rise(finding: found.RiseTooShort, metric: Metric) -> str:
    seen = f"the {metric.word} never exceeds {numbers.target(finding.highest_error, 2)}"
    if finding.reached_chance:
        seen = _too_steep(finding, finding.rows_risen, "on the rise")
    return f"{finding.symbol} is not determined: {seen}; {_advice(finding)}."


@words.register
def _wide(finding: found.WideInterval, metric: Metric) -> str:
    ends = finding.lower, finding.upper
    low, high = (numbers.parameter(end, ends) for end in ends)
    text = f"{finding.symbol} is not determined: anything from {low} to {high} fits"
    if finding.axis:
        return f"{text}; train more {finding.axis}s."
    if finding.remedy is None:
        return f"{text}."
    if finding.remedy is found.Remedy.SHARPER_LAW:
        return (
            f"{text}, because the bends are sharper than this law's; more rows would not change that, but a law with "
            "sharper bends may fit (--law sharp)."
        )
    how = SMALLER_STEPS if finding.remedy is found.Remedy.SMALLER_STEPS else "prune further"
    return f"{text}; {how}, so that more rows lie between the two plateaus."


@words.register
def _scale(finding: found.ScaleFollowsPlateau, metric: Metric) -> str:
    because = f"{finding.symbol} is not determined because {finding.plateau_symbol} is not"
    if not finding.slope_symbol:
        return f"{because}."
    return f"{because}; only {finding.symbol}·{finding.plateau_symbol}^(1/{finding.slope_symbol}) is known."


@words.register
def _two_sizes(finding: found.TwoSizesOnly, metric: Metric) -> str:
    return f"{finding.symbol} is based on only two {finding.axis}s, so it cannot be checked; train a third."


@words.register
def _at_bound(finding: found.AtBound, metric: Metric) -> str:
    limit = f"{finding.symbol} hit its search limit ({numbers.number(finding.bound)})"
    return f"{limit}." if finding.explained else f"{limit}, so its estimate is unreliable."


@words.register
def _flat(finding: found.FlatProfile, metric: Metric) -> str:
    values = listed(map(numbers.number, finding.values), "or")
    return (
        f"{finding.symbol} is poorly determined: {values} would fit almost as well if the other parameters are "
        "refitted."
    )


@words.register
def _outside(finding: found.OutsideInterval, metric: Metric) -> str:
    return (
        f"The estimate of {finding.symbol} lies outside its interval: the paper's fit treats measured unpruned "
        f"{metric.plural} as exact. The interval does not, and here that makes a difference."
    )


@words_together(found.OutsideInterval)
def _several_outside(every: Sequence[found.OutsideInterval], metric: Metric) -> str:
    return (
        f"The estimates of {listed(finding.symbol for finding in every)} lie outside their intervals: the paper's fit "
        f"treats measured unpruned {metric.plural} as exact. The intervals do not, and here that makes a difference."
    )


@words.register
def _dips(finding: found.DipsIgnored, metric: Metric) -> str:
    place = configuration(finding.depth, finding.width, finding.num_examples)
    follow = f" --law {finding.following_law} follows the dip." if finding.following_law else ""
    share = f"{finding.dipping} of {finding.configurations} configurations"
    where = share if finding.configurations > 1 else "the only configuration"
    return (
        f"In {where} the {metric.word} clearly falls below its unpruned value, by up to {finding.deepest:.0%} "
        f"({place}). The law is flat there, so it overestimates: its mean deviation is "
        f"{numbers.percent(finding.mean_deviation, sign=True)}.{follow}"
    )


@words.register
def _too_large(finding: found.TooLarge, metric: Metric) -> str:
    place = configuration(finding.depth, finding.width, finding.num_examples)
    verb, whose = ("is", "its") if finding.too_large == 1 else ("are", "their")
    return (
        f"{finding.too_large} of {finding.configurations} configurations {verb} too large for {whose} data: unpruned, "
        f"a smaller network does better than {place}. The paper leaves such networks out. To do the same, use "
        "--without-too-large (`Table.without_too_large` in Python)."
    )


@words.register
def _missed(finding: found.Missed, metric: Metric) -> str:
    place = configuration(finding.depth, finding.width, finding.num_examples)
    return f"The law fits {place} badly: deviation {numbers.deviation(finding)}."


@words.register
def _more_missed(finding: found.MoreMissed, metric: Metric) -> str:
    return f"It fits {plural(finding.count, 'more configuration')} just as badly."


@words.register
def _few(finding: found.FewConfigurations, metric: Metric) -> str:
    return (
        f"With {plural(finding.configurations, 'configuration')} the intervals are based on the scatter of rows alone "
        "and assume that the law is right; more configurations would test it."
    )


@words.register
def _widened(finding: found.WidenedIntervals, metric: Metric) -> str:
    return (
        f"With {finding.configurations} configurations (fewer than {finding.enough}) the intervals are widened on "
        "purpose: in simulations they cover 96 to 100% instead of 95%."
    )


@words.register
def _no_replicates(finding: found.NoReplicates, metric: Metric) -> str:
    return "Without replicates, the noise of the measurements is unknown; train a second replicate to measure it."


@words.register
def _at_chance(finding: found.AtChance, metric: Metric) -> str:
    verb = "is" if finding.rows == 1 else "are"
    return f"{plural(finding.rows, 'row')} no better than chance ({finding.chance:g}) {verb} left out of the fit."


@words.register
def _preference(finding: found.LawPreference, metric: Metric) -> str:
    difference = f"{finding.best_rms:.1%} versus {finding.other_rms:.1%} on configurations left out"
    if not finding.clear:
        return f"{capital(finding.best_title)} and {finding.other_title} predict about equally well: {difference}."
    if finding.best == finding.law:
        return f"The data prefer this law to {finding.other_title}: {difference}."
    return f"The data prefer {finding.best_title} (--law {finding.best_source}): {difference}."


@words.register
def _averaged(finding: found.LawsAveraged, metric: Metric) -> str:
    laws = [f"{title} ({weight:.0%})" for title, weight in zip(finding.titles, finding.weights, strict=True)]
    missed = [f"{rms:.1%}" for rms in finding.rms]
    return (
        f"Predictions average over {listed(laws)}, weighted by how well they predict configurations left out (within "
        f"{listed(missed)})."
    )


def verdict_numbers(verdict: Verdict) -> str:
    """The numbers behind a verdict."""
    what = "configurations left out are" if verdict.left_out else "the configurations fitted are"
    all_of_them = verdict.determined == verdict.parameters
    share = "all" if all_of_them else f"{verdict.determined} of"
    noise = (
        f"{verdict.noise:.1%}"
        if verdict.replicated
        else f"about {verdict.noise:.1%}, estimated from the roughness of the curves"
    )
    return (
        f"{what} predicted within {verdict.missed:.1%} (noise alone causes {noise}), and the data determine {share} "
        f"{plural(verdict.parameters, 'parameter')}"
    )


def verdict_sentence(verdict: Verdict, *, trained_only: bool = True) -> str:
    """A verdict on one line; `trained_only` says whether an unusable law leaves only networks that were trained."""
    only = " Only networks that were trained are considered." if trained_only and not verdict.usable else ""
    return f"Trust in this law here: {verdict.trust}; {verdict_numbers(verdict)}.{only}"


@words.register
def _never_varied(finding: found.AxisNeverVaried, metric: Metric) -> str:
    name = axis_name(finding.axis)
    value = f"{finding.value:,.0f}" if finding.axis == "num_examples" else f"{finding.value:g}"
    return (
        f"The {name} was {value} in every measurement, so the data do not show the effect of another {name}. Treat "
        "this prediction as a guess; its interval is too narrow."
    )


def fit_as_json(fit: Fit, table: Table) -> dict[str, Any]:
    """A fit as JSON, with its findings and those of its table as notes, without its draws."""
    body = {
        name: value
        for name, value in fit.as_json().items()
        if name not in ("spread", "findings", "law_source")
    }
    notes = [finding_as_json(own, fit.metric) for own in fit.findings]
    table_notes = [finding_as_json(own, table.metric) for own in table.findings]
    return {**body, "verdict": asdict(verdict(fit)), "notes": notes, "table_notes": table_notes}

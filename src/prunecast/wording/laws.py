"""The findings of a fit in words."""

from prunecast.laws import findings as found
from prunecast.laws.findings import CurvesTooShort, Remedy
from prunecast.metric import Metric
from prunecast.text import listed, plural
from prunecast.wording.core import words

SMALLER_STEPS = "prune in smaller steps (a smaller `fraction`)"
AXIS_NAMES = {"num_examples": "number of examples"}


def axis_name(axis: str) -> str:
    """An axis in a sentence: depth, width, number of examples."""
    return AXIS_NAMES.get(axis, axis)


def configuration(depth: float, width: float, num_examples: float) -> str:
    """A configuration in a sentence."""
    return f"depth {depth:g}, width {width:g}, {num_examples:,.0f} examples"


def _advice(own: CurvesTooShort) -> str:
    """More levels for the curves that can have them, smaller steps for those that reached chance."""
    steps = []
    if own.more_levels is not None:
        which = "the others " if own.reached_chance else ""
        steps.append(f"prune {which}{plural(own.more_levels, 'more level')}")
    if own.reached_chance:
        steps.append(SMALLER_STEPS)
    return " or ".join(steps)


def _too_steep(own: CurvesTooShort, rows: int, place: str) -> str:
    """Curves that reach chance have few rows on the way: they rise too steeply for their levels."""
    curves = f"{own.reached_chance} of {own.configurations} curves" if own.configurations > 1 else "the curve"
    verb, they = ("reaches", "it rises") if own.reached_chance == 1 else ("reach", "they rise")
    seen = plural(rows, "row", "is", "are")
    return (
        f"only {seen} {place}, although {curves} {verb} chance, because {they} too steeply for these levels"
    )


@words(found.NoRise)
def _no_rise(own: found.NoRise, metric: Metric) -> str:
    seen = f"No curve rises more than {own.margin:.0%} above its unpruned {metric.word}"
    if own.reached_chance:
        everywhere = own.reached_chance == own.configurations
        verb = "reaches" if own.reached_chance == 1 else "reach"
        seen += (
            " before it reaches chance" if everywhere else f", although {own.reached_chance} {verb} chance"
        )
    return f"{seen}, so the data do not determine {listed(own.symbols)}; {_advice(own)}."


@words(found.PlateauNotReached)
def _plateau(own: found.PlateauNotReached, metric: Metric) -> str:
    seen = f"no curve comes near its high plateau (the largest {metric.word} is {own.highest_error:.2g})"
    if own.reached_chance and own.chance_known:
        seen = _too_steep(own, own.rows_near, "near the high plateau")
    fix = ", or fix it with --high-error chance" if own.chance_known else ""
    return f"{own.symbol} is not determined: {seen}; {_advice(own)}{fix}."


@words(found.RiseTooShort)
def _rise(own: found.RiseTooShort, metric: Metric) -> str:
    seen = f"the {metric.word} never exceeds {own.highest_error:.2g}"
    if own.reached_chance:
        seen = _too_steep(own, own.rows_risen, "on the rise")
    return f"{own.symbol} is not determined: {seen}; {_advice(own)}."


@words(found.WideInterval)
def _wide(own: found.WideInterval, metric: Metric) -> str:
    text = f"{own.symbol} is not determined: anything from {own.lower:.2g} to {own.upper:.2g} fits"
    if own.axis:
        return f"{text}; train more {own.axis}s."
    if own.remedy is None:
        return f"{text}."
    how = SMALLER_STEPS if own.remedy is Remedy.SMALLER_STEPS else "prune further"
    return f"{text}; {how}, so that more rows lie between the two plateaus."


@words(found.ScaleFollowsPlateau)
def _scale(own: found.ScaleFollowsPlateau, metric: Metric) -> str:
    because = f"{own.symbol} is not determined because {own.plateau_symbol} is not"
    if not own.slope_symbol:
        return f"{because}."
    return f"{because}; only {own.symbol}·{own.plateau_symbol}^(1/{own.slope_symbol}) is known."


@words(found.TwoSizesOnly)
def _two_sizes(own: found.TwoSizesOnly, metric: Metric) -> str:
    return f"{own.symbol} rests on two {own.axis}s only, so nothing tests it; train a third."


@words(found.AtBound)
def _at_bound(own: found.AtBound, metric: Metric) -> str:
    limit = f"{own.symbol} hit its search limit ({own.bound:.3g})"
    return f"{limit}." if own.determined else f"{limit}, so its estimate is unreliable."


@words(found.FlatProfile)
def _flat(own: found.FlatProfile, metric: Metric) -> str:
    values = listed([f"{value:.3g}" for value in own.values], "or")
    return f"{own.symbol} is poorly determined: {values} would fit almost as well, with the others refitted."


@words(found.OutsideInterval)
def _outside(own: found.OutsideInterval, metric: Metric) -> str:
    return (
        f"The estimate of {own.symbol} lies outside its interval: the paper's fit takes measured unpruned "
        f"{metric.plural} as exact, the interval does not, and here that makes a difference."
    )


@words(found.DipsIgnored)
def _dips(own: found.DipsIgnored, metric: Metric) -> str:
    place = configuration(own.depth, own.width, own.num_examples)
    follow = f" --law {own.following_law} follows the dip." if own.following_law else ""
    return (
        f"In {own.dipping} of {own.configurations} configurations the {metric.word} clearly falls below its unpruned "
        f"value, by up to {own.deepest:.0%} ({place}). The law is flat there and overestimates: its mean deviation is "
        f"{own.mean_deviation:+.1%}.{follow}"
    )


@words(found.TooLarge)
def _too_large(own: found.TooLarge, metric: Metric) -> str:
    place = configuration(own.depth, own.width, own.num_examples)
    verb, whose = ("is", "its") if own.too_large == 1 else ("are", "their")
    return (
        f"{own.too_large} of {own.configurations} configurations {verb} too large for {whose} data: unpruned, a "
        f"smaller network does better than {place}. The paper leaves such networks out; --without-too-large does, too "
        "(`Table.without_too_large` in Python)."
    )


@words(found.Missed)
def _missed(own: found.Missed, metric: Metric) -> str:
    place = configuration(own.depth, own.width, own.num_examples)
    return f"The law fits {place} badly: deviation {own.mean:+.1%} ± {own.std:.1%}."


@words(found.MoreMissed)
def _more_missed(own: found.MoreMissed, metric: Metric) -> str:
    return f"It fits {plural(own.count, 'more configuration')} as badly."


@words(found.FewConfigurations)
def _few(own: found.FewConfigurations, metric: Metric) -> str:
    return (
        f"With {plural(own.configurations, 'configuration')} the intervals rest on the scatter of rows alone and "
        "assume that the law is right; more configurations would test it."
    )


@words(found.WidenedIntervals)
def _widened(own: found.WidenedIntervals, metric: Metric) -> str:
    return (
        f"With {own.configurations} configurations (fewer than {own.enough}) the intervals are widened on purpose: in "
        "simulations they cover 96 to 100% instead of 95%."
    )


@words(found.NoReplicates)
def _no_replicates(own: found.NoReplicates, metric: Metric) -> str:
    return (
        "Without replicates the noise of the measurements is unknown; train a second replicate to measure it."
    )


@words(found.AtChance)
def _at_chance(own: found.AtChance, metric: Metric) -> str:
    verb = "is" if own.rows == 1 else "are"
    return f"{plural(own.rows, 'row')} no better than chance ({own.chance:g}) {verb} left out of the fit."


@words(found.LawPreference)
def _preference(own: found.LawPreference, metric: Metric) -> str:
    numbers = f"{own.best_rms:.1%} against {own.other_rms:.1%} on configurations left out"
    if not own.clear:
        return f"{_capital(own.best_title)} and {own.other_title} predict about equally well: {numbers}."
    if own.best == own.law:
        return f"The data prefer this law to {own.other_title}: {numbers}."
    return f"The data prefer {own.best_title} (--law {own.best_source}): {numbers}."


@words(found.AxisNeverVaried)
def _never_varied(own: found.AxisNeverVaried, metric: Metric) -> str:
    name, value = axis_name(own.axis), f"{own.value:,.0f}" if own.axis == "num_examples" else f"{own.value:g}"
    return (
        f"The {name} was {value} in every measurement, so the data do not show what another {name} does: take "
        "this as a guess, with an interval that is too narrow."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]

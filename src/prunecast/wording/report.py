"""The sentences of the page and of the command line's tables, other than findings."""

import math
from collections.abc import Iterator

from prunecast.choice import Choice, Matching, Measure, Network
from prunecast.choice import findings as choice_findings
from prunecast.laws import AXES, DEFAULT_LAW, Fit, Role, get_law
from prunecast.metric import Metric
from prunecast.studies import (
    Dips,
    Extrapolation,
    Forms,
    Invariance,
    Noise,
    Optimality,
    Sensitivity,
)
from prunecast.text import capital, listed, plural
from prunecast.wording import numbers
from prunecast.wording.choice import (
    NOT_TRUSTED,
    OF_LARGEST,
    amount,
    expected_instead,
    in_runtime,
    keeping,
    network_name,
    train,
    unit,
)
from prunecast.wording.laws import configuration

DEVIATION = "(predicted − measured) / measured"
DEVIATION_COLUMNS = f"Deviation {DEVIATION}: mean μ and standard deviation σ."
NEW_RUNS = "95% of new training runs"
DOUBLES = 2.0
"""A rise by this factor or more is shown as a multiple, not as a percentage."""
SAME_SHARE = 0.01
"""Density ratios that differ from 1 by less than this count as 1."""


# the page


def page_title(family: str, dataset: str, source: str) -> str:
    """What a page is about."""
    return f"What pruning does to {' on '.join(word for word in (family, dataset) if word) or source}"


def page_lead(source: str, rows: int, fit: Fit | None) -> str:
    """What a page is made from."""
    lead = f"{source}: {plural(rows, 'training run')}"
    if fit is None:
        return f"{lead}."
    configurations, parameters = len(fit.configurations), len(fit.parameters)
    return (
        f"{lead}, {plural(configurations, 'configuration')}, one law with {plural(parameters, 'parameter')}."
    )


def no_law(why: str) -> str:
    """Why a page has no law."""
    return f"No law could be fitted: {why}"


def no_answer(why: str) -> str:
    """Why a page has no answer."""
    return f"No answer can be given: {why}"


# the fit


def fit_title(fit: Fit) -> str:
    """Which law was fitted to what."""
    origin = fit.origin
    about = ", ".join(word for word in (origin.family, origin.dataset, origin.method, origin.recipe) if word)
    rows = f"{plural(fit.rows, 'row')} of {plural(len(fit.configurations), 'configuration')}"
    return f"{capital(fit.title)} fitted to {origin.table}{f' ({about})' if about else ''}: {rows}"


def noise(fit: Fit) -> str:
    """How the deviations compare with the noise of replicates."""
    floor = fit.noise_floor
    if floor is None:
        return "There are no replicates, so the noise floor is unknown."
    differ, least = numbers.percent(floor.replicate), numbers.percent(floor.fit)
    if fit.deviation.std < floor.fit:
        return (
            f"Replicates differ by {differ}. This noise alone causes about {least}, so the fit is as good as it can "
            "be."
        )
    return f"Replicates differ by {differ}, so no fit can get below about {least}."


def reading_the_fit(metric: Metric) -> str:
    """What the chart and the numbers of a fit mean."""
    return (
        "Each dot is one network at one level. If the law were exact, all dots would lie on the diagonal. The "
        f"deviation is {DEVIATION}; μ is its mean, σ its standard deviation over all {metric.plural}."
    )


def parameters(fit: Fit, deepest_dip: float) -> Iterator[str]:
    """What the parameters mean for pruning; `deepest_dip` is how far errors fall below the unpruned one, as a share."""
    yield from _plateau(fit)
    yield from _slope(fit)
    for axis, name in fit.exponents.items():
        yield _exponent(fit, axis, name)
    width = fit.exponents.get("width")
    if width is not None and width not in fit.undetermined:
        yield _width_against_weights(fit.parameters[width], fit.metric)
    if fit.dips and deepest_dip > 0:
        deepest = numbers.percent(deepest_dip, digits=0)
        yield f"Light pruning lowers the {fit.metric.word} by up to {deepest} of its unpruned value."


def _slope(fit: Fit) -> Iterator[str]:
    """How much the error rises when the density is halved; it cannot rise by more than the plateaus are apart."""
    slope = next((own.name for own in fit.form().parameters if own.role is Role.SLOPE), None)
    if slope is None:
        return
    word, times = fit.metric.word, math.exp2(fit.parameters[slope])
    known = f"2^{fit.symbol(slope)} with {_value(fit, slope)}"
    lowest = min(own.lowest_error for own in fit.configurations)
    if slope in fit.undetermined or times > fit.high_error / lowest:
        yield (
            f"The data do not show how fast the {word} rises between the plateaus: it rises too steeply, or over too "
            f"few levels ({_value(fit, slope)})."
        )
    elif times < DOUBLES:
        rise = numbers.percent(times - 1, digits=0)
        yield f"In the power-law region, halving the density raises the {word} by {rise} ({known})."
    else:
        yield f"In the power-law region, halving the density makes the {word} {times:.2g} times as large ({known})."


def _exponent(fit: Fit, axis: str, name: str) -> str:
    """How an axis trades against density: the share of the density that gives the same error at twice the size."""
    word, share = fit.metric.word, math.exp2(-fit.parameters[name])
    what = "number of training examples" if axis == "num_examples" else axis
    if name in fit.undetermined:
        return f"The data do not show how the {what} trades against density ({_value(fit, name)})."
    if abs(share - 1) < SAME_SHARE:
        return f"Past their low plateaus, networks with twice the {what} have the same {word} ({_value(fit, name)})."
    part = f"{numbers.share(share)} of the density" if share < DOUBLES else f"{share:.2g} times the density"
    return f"A network with twice the {what} has the same {word} at {part} ({_value(fit, name)})."


def _value(fit: Fit, name: str) -> str:
    open_ = ", which the data do not determine" if name in fit.undetermined else ""
    return f"{fit.symbol(name)} = {numbers.number(fit.parameters[name])}{open_}"


def _plateau(fit: Fit) -> Iterator[str]:
    if fit.plateau is None:
        return
    value, word = f"{fit.symbol(fit.plateau)} = {numbers.number(fit.high_error)}", fit.metric.word
    if fit.plateau in fit.undetermined:
        yield f"The data do not show where the {word} of pruned networks stops rising: {value} is a guess."
    else:
        yield f"However far a network is pruned, its {word} stops rising at {value}."


def _width_against_weights(psi: float, metric: Metric) -> str:
    """Whether wide and sparse beats narrow and dense: weights grow with w²·d, the error depends on w^ψ·d."""
    change = math.expm1((2 - psi) * math.log(2))
    if abs(change) < 0.02:
        return (
            f"At equal {metric.word}, wide and narrow networks need about the same number of weights once they are "
            "pruned."
        )
    more, smaller = ("more", "narrower") if change > 0 else ("fewer", "wider")
    return (
        f"Weights grow with the square of the width, so a network of twice the width then has "
        f"{numbers.percent(abs(change), digits=0)} {more} weights at equal {metric.word}: the {smaller} network is the "
        f"smaller one as long as its unpruned {metric.word} is well below the target."
    )


def invariant(formula: str, metric: Metric) -> str:
    """What the invariant is."""
    return (
        f"Past the low plateau, the {metric.word} depends on the invariant m* = {formula} alone: its factors can be "
        "traded for each other as long as m* stays the same."
    )


NO_INVARIANT = "Only one size was measured, so there is nothing to compare yet. Train another width or depth."
EVERYTHING_KNOWN = "Every parameter is determined, and the noise is known."
ZEROS = (
    "Zeros scattered over the weights save storage and arithmetic only where the runtime uses them. Sizes count "
    "parameters, not milliseconds."
)
NEEDED = (
    "A law of one network needs at least four levels, some of them where the error no longer rises.",
    "A law of a family needs several widths or depths, each pruned through many levels.",
    "Rows no better than chance do not count.",
)


def measured_sizes_only(metric: Metric) -> str:
    """Why no other sizes can be chosen."""
    return (
        f"There are too few configurations to fit a law of the unpruned {metric.word}, so only measured sizes can be "
        "chosen."
    )


def sources(metric: Metric) -> str:
    """Where the numbers of a page come from."""
    return (
        f"Measured {metric.plural} come from the table, averaged over replicates. Predictions, curves and intervals "
        f"come from the fitted law; unpruned {metric.plural} of sizes that were not trained come from a law of the "
        f"unpruned {metric.word}. For built-in families, sizes are counted layer by layer. The page itself computes "
        "nothing."
    )


SCORES = (
    "Deviation μ ± σ in sample, with configurations left out, and from the smaller half of the networks to the larger "
    "half; free: number of fitted parameters. Ranked by √(μ² + σ²) with configurations left out."
)


# answers


def headline(choice: Choice) -> str:
    """What to do for a target; if no network meets it, which one comes closest."""
    best = choice.answer
    network, kept = network_name(choice.naming, best.depth, best.width), numbers.kept(best.density)
    if not choice.trusted:
        return NOT_TRUSTED
    if not choice.met:
        return f"No network here meets it. The closest is {network}, {keeping(best, kept)}."
    return train(network, best, kept)


def measure_name(measure: Measure) -> str:
    """A measure in the page's selector."""
    return "latency" if measure is Measure.LATENCY else measure.unit


def comparison(choice: Choice, matching: Matching) -> str:
    """How much smaller the answer is than the network one would usually prune."""
    naming = choice.naming
    size, pruned = (amount(naming, value) for value in (matching.unpruned_size, matching.pruned_size))
    takes = choice.question.minimise is Measure.LATENCY
    verb = ("takes" if takes else "has") if naming.counted else "is"
    return (
        f"The smallest network that meets the target unpruned ({network_name(naming, matching.depth, matching.width)}) "
        f"{verb} {size} {unit(naming, choice.question.minimise)}, and {pruned} when "
        f"pruned as far as the target allows: {matching.times_smaller:.2f} times the size of this one."
    )


def error_source(choice: Choice) -> str:
    """Where the error of an answer comes from."""
    if choice.answer.source != "measured":
        return "predicted by the law"
    expected = expected_instead(choice)
    return f"measured; {expected}" if expected else "measured"


def meeting_the_target(choice: Choice) -> str:
    """How likely a new training run is to meet the target."""
    if not choice.met:
        return "the target is not met"
    probability = choice.answer.probability
    return "" if probability is None else f"{numbers.probability(probability)} meet the target"


def size_remark(choice: Choice) -> str:
    """What the size of an answer counts."""
    best, naming = choice.answer, choice.naming
    if not naming.counted or best.stored_parameters == best.nonzero_parameters:
        return unit(naming, choice.question.minimise) if not naming.counted else "non-zero weights"
    return f"stored parameters, {numbers.count(best.nonzero_parameters)} of them non-zero weights"


def products_remark(choice: Choice) -> str:
    """What the multiply-adds of an answer count."""
    return "per image" if _removes_channels(choice) else "per image, if zeros are skipped and spread evenly"


def _removes_channels(choice: Choice) -> bool:
    return any(isinstance(own, choice_findings.ChannelsRemoved) for own in choice.findings)


def latency_facts(choice: Choice) -> list[tuple[str, str]]:
    """An answer's latencies, each with runtime, batch and interval; the first is the one that is minimised."""
    runtime, batch = (*choice.timed_with.split("-"), "", "")[:2]
    best = choice.answer
    called = in_runtime(runtime, int(batch)) if batch.isascii() and batch.isdecimal() else ""
    others = [
        (in_runtime(own.runtime, own.batch), own.milliseconds, own.interval) for own in best.other_latencies
    ]
    first = [] if best.latency_ms is None else [(called, best.latency_ms, best.latency_interval)]
    return [(f"{latency:.3g} ms", _latency_remark(how, span)) for how, latency, span in (*first, *others)]


def _latency_remark(called: str, interval: tuple[float, float] | None) -> str:
    how = "as timed" if interval is None else "predicted, 95% in {:.3g} to {:.3g} ms".format(*interval)
    return f"{called}, {how}" if called else how


def density(value: float) -> str:
    """The share of weights kept, as a number for commands."""
    return f"density {numbers.density(value)}"


def levels(choice: Choice, kept_per_level: float) -> str:
    """The density of an answer, and the levels that reach it; levels that remove channels differ in their share."""
    best = choice.answer
    share = "" if _removes_channels(choice) else f" of {numbers.percent(1 - kept_per_level, digits=0)}"
    return f"{density(best.density)}, {plural(best.level, 'level')}{share}"


def cost_remark(best: Network) -> str:
    """What training an answer costs."""
    runs = f"× the costliest measured training run, {plural(best.training_runs, 'training run')} (levels + 1)"
    return (
        runs
        if best.network_epochs is None
        else f"{runs}, {numbers.count(best.network_epochs)} network-epochs"
    )


def answer_caption(confidence: float, metric: Metric) -> str:
    """What the chart of the answer shows."""
    sure = (
        "" if confidence == 0.5 else f" that {numbers.percent(confidence, digits=0)} of training runs reach"
    )
    return (
        "Dots are measured. Each coloured line is the law for a measured size, each grey line for a size that was "
        f"not trained. The thick line is the frontier: the smallest network for each {metric.word}{sure}. The "
        f"large dot is the recommended network, and its bar is the interval of {NEW_RUNS}."
    )


def several_dataset_sizes(fit: Fit, sizes: int) -> str:
    """How one law applies to several dataset sizes."""
    acts = f"through the unpruned {fit.metric.word} alone"
    if fit.needs_examples:
        acts = f"through the unpruned {fit.metric.word} and through the law itself"
    return (
        f"One law was fitted to all {sizes} dataset sizes. The number of training examples enters it {acts}. Select "
        "the number you will train on to update the network, the curves and the frontier."
    )


def nothing_meets(
    target: str, least: str, network: str, best: Network, confidence: float, metric: Metric
) -> str:
    """Say that no network reaches a target, and which comes closest."""
    sure = "" if confidence == 0.5 else f" with probability {confidence:g}"
    kept = (
        "to expect"
        if confidence == 0.5
        else f"that {numbers.percent(confidence, digits=0)} of training runs reach"
    )
    pruned = keeping(best, numbers.kept(best.density))
    return f"No network here reaches {target}{sure}. The lowest {metric.word} {kept} is {least}: {network}, {pruned}."


ASK_FURTHER = "To check networks outside the measured range, use `prunecast choose … --sizes around`."


def guessing_suffices(target: str, chance: float) -> str:
    """Say that guessing reaches a target."""
    return f"{target} needs no network: guessing has an error of {chance:g}."


def any_network_suffices(target: str, fit: Fit) -> str:
    """Say that every network meets a target, however far it is pruned."""
    high, word = numbers.number(fit.high_error), fit.metric.word
    if fit.plateau is None or fit.plateau in fit.undetermined:
        return (
            f"The data do not show how far the {word} rises (the law guesses {high}), so it is unknown which networks "
            f"reach {target}."
        )
    return (
        f"Any network reaches {target}: according to the law, the {word} stays below {high} however far a network is "
        "pruned."
    )


# frontier


def frontier_title(law: str, metric: Metric) -> str:
    """What a frontier is."""
    return f"The smallest network for each {metric.word} according to {law}"


def all_errors(count: int, metric: Metric) -> str:
    """Where to find all networks of a frontier."""
    return f"--json lists all {count} {metric.plural}."


def least_measured(value: float, metric: Metric) -> str:
    """Say that measured errors are below the law's frontier."""
    return (
        f"The lowest measured {metric.word} is {numbers.error(value)}. A frontier uses the law alone; the answer to "
        "one target also uses measured networks."
    )


# studies


def optimality(study: Optimality, metric: Metric) -> str:
    """How close the law's smallest networks come to the measured ones."""
    return (
        f"At {numbers.percent(study.within_quarter, digits=0)} of {metric.plural}, the smallest size predicted by the "
        "law is within 25% of the smallest measured one (median deviation "
        f"{numbers.percent(study.median_miss, digits=0)}). On average, the network that the law picks has "
        f"{numbers.percent(study.mean_regret)} more weights than the best one in hindsight."
    )


EXTRAPOLATION = (
    "Each law is fitted to the smaller half of the sizes and tested on the larger half: deviation μ ± σ."
)


def extrapolated(study: Extrapolation) -> str:
    """How well the paper's law extrapolates along each axis."""
    steps = [step for step in study.steps if step.law == DEFAULT_LAW and step.along in AXES]
    if not steps:
        return "No axis has enough sizes to test an extrapolation."
    along = listed(f"{numbers.deviation(step.predicted)} along {numbers.axis(step.along)}" for step in steps)
    law = get_law(DEFAULT_LAW).title
    return f"Fitted to the smaller half of the sizes, {law} misses the larger half by {along}."


def sensitivity(study: Sensitivity) -> str:
    """How few configurations are enough for a fit."""
    ways = {"random": "{} random configurations", "designed": "{} chosen by design"}
    needed = {how: study.needed[f"{how}_configurations"] for how in ways}
    enough = [ways[how].format(count) for how, count in needed.items() if count is not None]
    whole = f"the fit to all {study.configurations} ({numbers.deviation(study.full)})"
    if not enough:
        return f"Fits to fewer configurations never have a σ within one point of {whole}."
    return f"Fits to {' or to '.join(enough)} have a σ within one point of {whole}."


def sensitivity_repeats(study: Sensitivity) -> str:
    """What the tables of a study of sensitivity show."""
    return f"The tables show fits to part of the {plural(study.rows, 'row')}, in {study.repeats} repeats."


def slopes(study: Invariance, metric: Metric) -> str:
    """The slopes of contours, compared with the law's."""
    law = get_law(DEFAULT_LAW).title
    along = [
        f"{numbers.signed(one.mean_slope)} ± {one.std_slope:.2f} along {numbers.axis(one.axis)} "
        f"({law}: {numbers.signed(one.predicted)})"
        for one in study.contours
        if one.count
    ]
    if not along:
        return f"Too few curves reach the same {metric.word} to draw contours."
    return f"Contours of constant {metric.word} have a slope of {listed(along)}."


def contours(metric: Metric) -> str:
    """What the contours of a table show."""
    return (
        f"Where the invariant holds, contours of constant {metric.word} are straight lines of one slope: "
        "∂log density / ∂log axis is minus the exponent of the axis."
    )


def single_curves(configurations: int) -> str:
    """How many curves alone determine the law of one network."""
    return f"Eq. 1 fitted to single curves: {plural(configurations, 'configuration', 'determines', 'determine')} it"


RELATIVE_SIZES = f"Sizes are shares {OF_LARGEST}; add a column `weights` to get counts."
FORMS = "The best predictor of configurations left out comes first: deviation μ ± σ."


def best_form(study: Forms) -> str:
    """Which form predicts configurations left out best, compared with the paper's."""
    best = study.scores[0]
    missed = numbers.deviation(best.left_out)
    text = f"{capital(best.title)} predicts configurations left out best; it misses them by {missed}"
    own = next((one for one in study.scores[1:] if one.name == DEFAULT_LAW), None)
    return f"{text}." if own is None else f"{text}, {own.title} by {numbers.deviation(own.left_out)}."


def dips(study: Dips, law: str, metric: Metric) -> str:
    """How deep the dips are and what bias they leave."""
    deepest = max(study.dips, key=lambda one: one.dip)
    if deepest.dip <= 0:
        return f"The {metric.word} never falls below its unpruned value."
    place = configuration(deepest.depth, deepest.width, deepest.num_examples)
    return (
        f"The {metric.word} falls below its unpruned value by up to {numbers.percent(deepest.dip)} "
        f"({place}; noise alone would show {numbers.percent(deepest.by_noise)}). This adds "
        f"{numbers.percent(study.bias, sign=True)} to μ of {law}."
    )


def scatter(study: Noise) -> str:
    """The noise, compared with the deviations from the law."""
    law = f"the deviations from the law have σ = {numbers.percent(study.residual)}"
    if study.overall.replicates is None:
        return f"Curves are rough by {numbers.percent(study.overall.roughness)}; {law}."
    return f"Replicates of one configuration differ by {numbers.percent(study.overall.replicates)}; {law}."


def evidence(law: str) -> str:
    """What the studies on the page are."""
    return (
        "Each study answers one question about the table; `prunecast study NAME TABLE --json` prints all of its "
        f"numbers. Unless a study names another law, it uses {law}."
    )


def left_out(rows: int) -> str:
    """Why the page does not compare forms."""
    return (
        f"Skipped, because it takes a while on {rows:,} rows; use `prunecast study forms` or --all-studies."
    )


def not_on_this_table(why: str) -> str:
    """Why a study has no result."""
    return f"Not possible with this table: {why}"

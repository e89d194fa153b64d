"""An answer in words: what to train, how good it will be, and each of its findings."""

from dataclasses import asdict
from typing import Any

from prunecast.choice import ALLOW_AROUND, POOR_LATENCY, Choice, Measure, Naming, Network, Question, findings
from prunecast.laws import get_law
from prunecast.metric import Metric
from prunecast.text import capital, listed, plural
from prunecast.wording import numbers
from prunecast.wording.core import finding_as_json, words
from prunecast.wording.laws import axis_name

OF_LARGEST = "of the largest measured network unpruned"
STAY_WITHIN = '--sizes within (sizes="within" in Python)'


NOT_TRUSTED = "The law cannot be trusted here, so it gives no answer."


def advice(choice: Choice) -> str:
    """What to train and how far to prune it."""
    best, target = choice.answer, choice.question.target_error
    network = network_name(choice.naming, best.depth, best.width)
    kept = f"{numbers.kept(best.density)} ({plural(best.level, 'level')})"
    if not choice.trusted:
        named = choice.question.depth is not None and choice.question.width is not None
        return f"{NOT_TRUSTED} {'You asked about' if named else 'It would pick'} {network}, keeping {kept}."
    if target is not None and not choice.met:
        closest = f"The closest network is {network}, {keeping(best, kept)}."
        return f"The target of {numbers.target(target)} is not met. {closest}"
    return train(network, best, kept)


def train(network: str, best: Network, kept: str) -> str:
    """The instruction to train a network; `kept` says how many of its weights to keep."""
    return f"Train {network}, and {f'keep {kept}' if best.level else 'do not prune it'}."


def keeping(best: Network, kept: str) -> str:
    """How far a network is pruned, after its name."""
    return f"keeping {kept}" if best.level else "not pruned"


def expected_instead(choice: Choice) -> str:
    """The expected error of a new training run, if it meets the target and the measured one does not or vice versa."""
    best, target = choice.answer, choice.question.target_error
    if target is None or (best.error <= target) == choice.met:
        return ""
    expected = numbers.estimate(best.expected_error, best.interval)
    return f"a new training run is expected to get about {expected}"


def promise(choice: Choice) -> str:
    """How good that network will be."""
    best, target, word = choice.answer, choice.question.target_error, choice.metric.word
    if best.source == "measured":
        text = f"Its measured {word} is {numbers.error(best.error)}"
        if expected := expected_instead(choice):
            text += f", and {expected}"
    else:
        will = f"Its {word} will" if choice.trusted else f"By this law its {word} would"
        text = f"{will} be about {numbers.estimate(best.error, best.interval)}"
    text += f"; 95% of new runs fall in {numbers.interval(best.interval)}"
    if target is None or not choice.met or best.probability is None:
        return f"{text}."
    return f"{text}, and {numbers.probability(best.probability)} meet the target of {numbers.target(target)}."


def network_name(naming: Naming, depth: float, width: float) -> str:
    """A network by its depth and width, if the table has them."""
    return _network(depth if "depth" in naming.axes else None, width if "width" in naming.axes else None)


def _network(depth: float | None, width: float | None) -> str:
    known = [
        *([] if depth is None else [f"depth {numbers.size(depth)}"]),
        *([] if width is None else [f"width {numbers.size(width)}"]),
    ]
    return ", ".join(known) or "the measured network"


def amount(naming: Naming, size: float) -> str:
    """A number of parameters or operations, or a share where parameters are not counted."""
    return numbers.count(size) if naming.largest is None else numbers.share(size / naming.largest)


def unit(naming: Naming, minimise: Measure) -> str:
    """The unit of an amount."""
    return minimise.unit if naming.counted else OF_LARGEST


def in_runtime(runtime: str, batch: int) -> str:
    """The batch and runtime of a latency: 64 images in ONNX Runtime."""
    name = {"torch": "PyTorch", "onnx": "ONNX Runtime", "cuda": "PyTorch on a GPU"}.get(runtime, runtime)
    return f"{plural(batch, 'image')} in {name}"


def timed_by(runtime: str, threads: int) -> str:
    """Which time a latency is."""
    if runtime == "cuda":
        return "wall-clock time on a GPU"
    return "processor time of one CPU thread" if threads == 1 else f"wall-clock time on {threads} CPU threads"


def _size(count: float | None, share: float | None, measure: Measure) -> str:
    """A size with its unit: a count, or a share of the largest measured network."""
    if share is not None:
        return f"{numbers.share(share)} {OF_LARGEST}"
    return "" if count is None else f"{numbers.count(count)} {measure.unit}"


def choice_as_json(choice: Choice) -> dict[str, Any]:
    """An answer as JSON: its network's numbers at the top level, then the rest."""
    body = asdict(choice)
    for network in (body["answer"], *body["runners_up"], body["further"] or {}):
        _drop_unknown(network, ("bytes", "latency_ms", "latency_interval", "other_latencies"))
    _drop_unknown(body["question"], ("max_latency",))
    _drop_unknown(body, ("timed_with",))
    body["notes"] = [finding_as_json(finding, choice.metric) for finding in choice.findings]
    del body["findings"]
    return {**body.pop("answer"), **body}


def _drop_unknown(body: dict[str, Any], names: tuple[str, ...]) -> None:
    """Remove entries that the table does not have."""
    for name in names:
        if name in body and body[name] in (None, (), ""):
            del body[name]


def out_of_reach(question: Question) -> str:
    """Say that no network meets the target within the budgets, without a full stop."""
    assert question.target_error is not None, "only a target can be out of reach"
    return _out_of_reach(question.target_error, question.confidence, question.budgeted)


def _out_of_reach(target: float, confidence: float, budget: bool) -> str:
    sure = "" if confidence == 0.5 else f" with probability {confidence:g}"
    return f"No network of these sizes reaches {numbers.target(target)}{sure}{' within the budget' * budget}"


@words.register
def _target(finding: findings.TargetOutOfReach, metric: Metric) -> str:
    text = _out_of_reach(finding.target_error, finding.confidence, finding.budget)
    lowest = (
        f"lowest expected {metric.word}"
        if finding.confidence == 0.5
        else f"lowest {metric.word} that {100 * finding.confidence:.4g}% of training runs reach"
    )
    text = f"{text}, so the answer is the network with the {lowest}."
    if finding.least_unpruned is None:
        return text
    return (
        f"{text} {capital(get_law(finding.law).title)} never predicts {metric.article} {metric.word} below the "
        f"unpruned {metric.word}, which is {numbers.error(finding.least_unpruned)} at best."
    )


def network_beyond(finding: findings.NetworkBeyondMeasured) -> str:
    """A network outside the measured range, its size and how to ask for it, without a full stop."""
    size = _size(finding.stored_parameters, finding.share_of_largest, Measure.STORED)
    return (
        f"{_network(finding.depth, finding.width)} with {numbers.kept(finding.density)} ({size}) is predicted to "
        f"meet the target; use {ALLOW_AROUND} to allow it"
    )


@words.register
def _beyond(finding: findings.NetworkBeyondMeasured, metric: Metric) -> str:
    return f"Outside the measured range, {network_beyond(finding)}."


@words.register
def _within_budget(finding: findings.MeasuredWithinBudget, metric: Metric) -> str:
    return "This network was measured; the law predicts nothing better within the budget."


@words.register
def _beats_law(finding: findings.MeasuredBeatsLaw, metric: Metric) -> str:
    size = _size(finding.predicted_size, finding.share_of_largest, finding.minimise)
    return (
        f"This network was measured. It is smaller than any network that {get_law(finding.law).title} predicts to "
        f"meet the target ({size})."
    )


@words.register
def _but_measured(finding: findings.ImpossibleByLawButMeasured, metric: Metric) -> str:
    text = (
        f"This target is impossible according to {get_law(finding.law).title}, which predicts "
        f"{numbers.error(finding.least_error)} at best"
    )
    if not finding.dips:
        text += f" and never predicts {metric.article} {metric.word} below the unpruned {metric.word}"
        text += f" (the law `{finding.dipping_law}` can)" if finding.dipping_law else ""
    if finding.measured:
        return f"{text}. However, the answer was measured."
    return f"{text}. However, the rows measured for this network suggest that a new training run meets it."


@words.register
def _outside(finding: findings.OutsideMeasured, metric: Metric) -> str:
    where = [*map(_range, finding.ranges), *map(_pair, finding.pairs)]
    if finding.density is not None:
        where.append(f"density {finding.density:.3g} (measured down to {finding.lowest_density:.3g})")
    remedy = f", or use {STAY_WITHIN} to stay inside that range" if finding.avoidable else ""
    text = f"This answer lies outside the measured range: {', '.join(where)}."
    return f"{text} Measure there before you rely on it{remedy}."


def _range(one: findings.MeasuredRange) -> str:
    name = axis_name(one.axis)
    digits = ",.12g" if one.axis == "num_examples" else "g"
    only = one.lowest == one.highest
    span = f"only {one.lowest:{digits}}" if only else f"{one.lowest:{digits}} to {one.highest:{digits}}"
    return f"{name} {one.value:{digits}} (measured: {span})"


def _pair(one: findings.MeasuredPair) -> str:
    (first, second), (value, other) = one.axes, one.values
    size = numbers.size(value)
    these = f"{first}s up to {size}" if one.sides[0] < 0 else f"{first}s of {size} or more"
    limit = f"at {'least' if one.sides[1] < 0 else 'most'}"
    if second == "num_examples":
        return (
            f"{first} {size} with {other:,.0f} examples ({these} were measured with {limit} {one.reach:,.0f})"
        )
    return (
        f"{first} {size} with {second} {numbers.size(other)} ({these} were measured with {second}s of {limit} "
        f"{numbers.size(one.reach)})"
    )


@words.register
def _undetermined(finding: findings.ParametersUndetermined, metric: Metric) -> str:
    return (
        f"The data do not determine {listed(finding.symbols)}, so treat this as a guess; `prunecast fit` shows what to "
        "measure."
    )


@words.register
def _answered_by(finding: findings.AnsweredByLaw, metric: Metric) -> str:
    return f"The answer comes from {get_law(finding.law).title}."


@words.register
def _unpruned_predicted(finding: findings.UnprunedErrorPredicted, metric: Metric) -> str:
    unpruned, off = numbers.error(finding.unpruned_error), f"{finding.deviation:.1%}"
    return (
        f"This size was never trained. The dense law and similar sizes predict an unpruned {metric.word} of {unpruned} "
        f"(the law alone is off by {off} on sizes left out); this uncertainty widens the interval."
    )


@words.register
def _too_briefly(finding: findings.TrainedTooBriefly, metric: Metric) -> str:
    return "Pruned networks are much better than unpruned ones, because training was too short; train longer."


@words.register
def _no_dense_law(finding: findings.NoDenseLaw, metric: Metric) -> str:
    return (
        f"There are too few configurations to fit a law of the unpruned {metric.word}, so only measured sizes are "
        "candidates."
    )


@words.register
def _validation(finding: findings.ValidationErrorsUsed, metric: Metric) -> str:
    return "The choice uses validation errors, so the test set remains an independent check."


@words.register
def _without_too_large(finding: findings.FittedWithoutTooLarge, metric: Metric) -> str:
    return "The law was fitted without networks that are too large for their data."


@words.register
def _examples(finding: findings.ExamplesMeasured, metric: Metric) -> str:
    measured = ", ".join(f"{n:,.0f}" for n in finding.measured)
    return f"The answer is for {finding.num_examples:,.0f} training examples (measured: {measured})."


@words.register
def _other_sizes(finding: findings.DensityOnlyAtOtherSizes, metric: Metric) -> str:
    return (
        f"With {finding.num_examples:,.0f} examples, no network was pruned below density {finding.lowest_density:.3g}, "
        "so this answer relies on the curves of other dataset sizes."
    )


@words.register
def _channels(finding: findings.ChannelsRemoved, metric: Metric) -> str:
    return (
        "In this table, pruning removes whole channels, so its networks are smaller dense networks. Density is the "
        "share of weights that remain."
    )


@words.register
def _cost(finding: findings.CostFromTable, metric: Metric) -> str:
    name = {Measure.MULTIPLY_ADDS: "Multiply-adds", Measure.BYTES: "Bytes"}.get(finding.measure, "Latencies")
    text = f"{name} come from the table, so only measured sizes were considered."
    if finding.deviation is not None:
        text = _predicted_latency(finding, finding.deviation)
    if not finding.flat:
        return f"{text} Between measured densities, values are interpolated."
    saves = {Measure.BYTES: "bytes"}.get(finding.measure, "time")
    return (
        f"{text} Pruning does not save {saves} here, because zeros are stored and multiplied; removing whole channels "
        'does (structure = "channels").'
    )


def _predicted_latency(finding: findings.CostFromTable, deviation: float) -> str:
    """Which latencies are predicted, and how good such predictions are."""
    checked = "timed as if untrained" if finding.timed_untrained else "each left out in turn"
    sizes = f"{finding.timed_sizes} {'trained' if finding.timed_untrained else 'timed'} sizes"
    off = f"Predictions for the {sizes}, {checked}, are {numbers.percent(deviation)} off"
    poor = deviation > POOR_LATENCY
    if finding.interval is not None:
        low, high = (f"{end:.3g}" for end in finding.interval)
        what = "was timed untrained" if finding.timed_untrained else "was not timed"
        text = f"This size {what}. Its latency is predicted: 95% of such networks take {low} to {high} ms."
        advice = f", which is more than {POOR_LATENCY:.0%}, so time the network before you rely on it"
        return f"{text} {off}{advice if poor else ''}."
    if finding.others:
        return f"Latencies of timed sizes are measured; those of other sizes are predicted. {off}."
    if poor:
        return f"Only timed sizes were considered, because predictions for others are poor. {off}."
    return "Latencies are measured; no other sizes were considered."


@words.register
def _proportional(finding: findings.SizesProportional, metric: Metric) -> str:
    return f"Sizes are relative, because {_reason(finding)}; add a column `weights` to get real counts."


@words.register
def _from_table(finding: findings.CountsFromTable, metric: Metric) -> str:
    text = f"Parameter counts come from the table, because {_reason(finding)}"
    if finding.complete:
        return f"{text}."
    return f"{text}. They leave out biases and normalisation; add a column `parameters` to include them."


@words.register
def _width_from_counts(finding: findings.WidthFromCounts, metric: Metric) -> str:
    return (
        f"Width is the square root of a network's share of the largest one's {numbers.count(finding.largest)} "
        f"parameters; this network has {numbers.count(finding.weights)} before pruning."
    )


@words.register
def _interpolated(finding: findings.SizeInterpolated, metric: Metric) -> str:
    unpruned = f"{numbers.count(finding.weights)} prunable weights"
    if finding.never_pruned:
        unpruned += f" and {numbers.count(finding.never_pruned)} other parameters"
    return (
        f"The table has no network of this size. Its size ({unpruned} before pruning) is interpolated from the "
        "sizes in the table, so the network you train may be somewhat larger or smaller."
    )


def _reason(finding: findings.SizesNotExact) -> str:
    unknown = findings.CountsUnknown
    return {
        unknown.NO_FAMILY: "the table does not name a family",
        unknown.FAMILY_NOT_BUILT_IN: f"the family {finding.family!r} is not built in",
        unknown.NO_DATASET: "the table does not name a dataset",
        unknown.CLASSES_UNKNOWN: f"the number of classes of {finding.dataset!r} is unknown",
        unknown.NO_DEPTHS: "the table has no depths",
        unknown.DEPTH_NOT_IN_FAMILY: f"the table's depths are not those of the built-in {finding.family}",
        unknown.COUNTS_DIFFER: f"the table's weights are not those of the built-in {finding.family}",
    }[finding.reason]

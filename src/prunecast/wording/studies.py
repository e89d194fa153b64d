"""The findings of studies in words, and what `next` concludes."""

from dataclasses import asdict, replace
from typing import Any

from prunecast.metric import Metric
from prunecast.studies import PAPER_SPLIT, Extrapolation, NextTraining, Step, findings
from prunecast.text import capital, listed
from prunecast.wording import numbers
from prunecast.wording.core import finding_as_json, words
from prunecast.wording.laws import axis_name


@words(findings.AxisNotVaried)
def _axis_not_varied(own: findings.AxisNotVaried, metric: Metric) -> str:
    return (
        f"{capital(axis_name(own.axis))} does not vary in this table, so this study shows nothing about it."
    )


@words(findings.TooFewSizes)
def _too_few_sizes(own: findings.TooFewSizes, metric: Metric) -> str:
    return f"{capital(axis_name(own.axis))} has fewer than three sizes, so extrapolation along it cannot be tested."


@words(findings.PaperSplitMissing)
def _paper_split_missing(own: findings.PaperSplitMissing, metric: Metric) -> str:
    widths, depths = (listed(map(numbers.size, sizes)) for sizes in (own.widths, own.depths))
    return f"The paper's own split (widths {widths}, depths {depths}) is not in this table."


@words(findings.CurvesAtBounds)
def _curves_at_bounds(own: findings.CurvesAtBounds, metric: Metric) -> str:
    return (
        f"{own.at_bounds} of {own.curves} curves fitted alone hit the search limit of a parameter; the spreads "
        "exclude them."
    )


@words(findings.NoNoiseOfReplicates)
def _no_noise_of_replicates(own: findings.NoNoiseOfReplicates, metric: Metric) -> str:
    return (
        "No network was trained twice, so this table cannot show the noise of replicates. The roughness of its curves "
        "is an upper bound on the noise of single rows. Train a second replicate of a few chains to measure it."
    )


@words(findings.FewErrorsCrossed)
def _few_errors_crossed(own: findings.FewErrorsCrossed, metric: Metric) -> str:
    crossed = f"{own.crossed} of {own.errors} {metric.plural}"
    if own.judged:
        return (
            f"Curves with {own.num_examples:,.0f} examples cross {crossed} between the lowest and the high plateau, "
            "too few to judge by. Prune further."
        )
    return (
        f"Networks with {own.num_examples:,.0f} examples were measured too, but their curves cross only {crossed}. Use "
        f"--where num_examples={own.num_examples:g} to judge them alone."
    )


@words(findings.NoRectangle)
def _no_rectangle(own: findings.NoRectangle, metric: Metric) -> str:
    return "No set of curves that leave the low plateau spans the axes of the law at one number of examples."


@words(findings.TargetNotReached)
def _target_not_reached(own: findings.TargetNotReached, metric: Metric) -> str:
    reached = f"reaches {metric.article} {metric.word} of {numbers.target(own.target_error)}"
    return f"No network of these sizes {reached}, so there is nothing to choose yet."


@words(findings.AxisToTrain)
def _axis_to_train(own: findings.AxisToTrain, metric: Metric) -> str:
    known = f"{capital(axis_name(own.axis))} never varied, so the law says nothing about it"
    return f"{known}. Train another {own.axis}, for example {own.example:g}."


@words(findings.UnprunedErrorsGuessed)
def _unpruned_errors_guessed(own: findings.UnprunedErrorsGuessed, metric: Metric) -> str:
    missing = f"There are too few configurations to fit a law of the unpruned {metric.word}"
    return f"{missing}, so its value for new chains is a rough guess."


@words(findings.GainsAssumeLaw)
def _gains_assume_law(own: findings.GainsAssumeLaw, metric: Metric) -> str:
    return "Gains are predicted by the law, so they assume that the law is right."


def fitted_to(step: Step) -> str:
    """The sizes that an extrapolation was fitted to: "depth 8, 14", or the paper's sizes."""
    sizes = {axis: listed(map(numbers.size, own)) for axis, own in step.fitted_sizes.items()}
    if step.along == PAPER_SPLIT:
        examples = [f"{size:,.0f} examples" for size in step.fitted_sizes.get("num_examples", ())]
        return ", ".join(["the paper's sizes", *examples])
    return "; ".join(
        f"{own} examples" if axis == "num_examples" else f"{axis} {own}" for axis, own in sizes.items()
    )


def next_conclusion(study: NextTraining, metric: Metric) -> str:
    """Whether more training would still change the answers."""
    if not study.answers:
        return f"No {metric.word} rises far enough to fit a law, so the chains of this table come first."
    if not any(answer.met for answer in study.answers):
        return "There is no answer yet that more training could make more certain."
    answers = "the answer" if len(study.answers) == 1 else "the answers"
    if study.settled:
        return f"More training would hardly change {answers}."
    if study.suggestions and study.suggestions[0].gain is None:
        return f"No chain is expected to change {answers} much; these are the likeliest to."
    return f"More training may still change {answers}."


def suggestions_legend(study: NextTraining, metric: Metric) -> str:
    """How to read the columns of suggestions."""
    return (
        f"Each level prunes {numbers.percent(1 - study.kept_per_level, digits=0)} of the weights, until the "
        f"{metric.word} shown. Cost is in training runs of the costliest measured network. Gain is the expected share "
        "by which the variance of the answers falls. Uncertainty is the standard deviation of the logarithm of the "
        "smallest network's size; an answer is settled at 10%."
    )


def study_as_json(study: Any, metric: Metric) -> dict[str, Any]:
    """A study's numbers as JSON, with its findings as notes."""
    known = getattr(study, "findings", None)
    if known is None:
        return asdict(study)
    body = asdict(replace(study, findings=()))
    del body["findings"]
    body["notes"] = [finding_as_json(own, metric) for own in known]
    if isinstance(study, Extrapolation):
        for step, own in zip(study.steps, body["steps"], strict=True):
            own["fitted_on"] = fitted_to(step)
    return body

"""The findings of studies in words."""

from dataclasses import asdict, replace
from typing import Any

from prunecast.metric import Metric
from prunecast.studies import PAPER_SPLIT, Extrapolation, Step, findings
from prunecast.text import capital, listed
from prunecast.wording import numbers
from prunecast.wording.core import finding_as_json, words
from prunecast.wording.laws import axis_name


@words.register
def _axis_not_varied(own: findings.AxisNotVaried, metric: Metric) -> str:
    return (
        f"{capital(axis_name(own.axis))} does not vary in this table, so this study shows nothing about it."
    )


@words.register
def _too_few_sizes(own: findings.TooFewSizes, metric: Metric) -> str:
    return f"{capital(axis_name(own.axis))} has fewer than three sizes, so extrapolation along it cannot be tested."


@words.register
def _paper_split_missing(own: findings.PaperSplitMissing, metric: Metric) -> str:
    widths, depths = (listed(map(numbers.size, sizes)) for sizes in (own.widths, own.depths))
    return f"The paper's own split (widths {widths}, depths {depths}) is not in this table."


@words.register
def _curves_at_bounds(own: findings.CurvesAtBounds, metric: Metric) -> str:
    return (
        f"{own.at_bounds} of {own.curves} curves fitted alone hit the search limit of a parameter; the spreads "
        "exclude them."
    )


@words.register
def _no_noise_of_replicates(own: findings.NoNoiseOfReplicates, metric: Metric) -> str:
    return (
        "No network was trained twice, so this table cannot show the noise of replicates. The roughness of its curves "
        "is an upper bound on the noise of single rows. Train a second replicate of a few chains to measure it."
    )


@words.register
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


@words.register
def _no_rectangle(own: findings.NoRectangle, metric: Metric) -> str:
    return "No set of curves that leave the low plateau spans the axes of the law at one number of examples."


def fitted_to(step: Step) -> str:
    """The sizes that an extrapolation was fitted to: "depth 8, 14", or the paper's sizes."""
    sizes = {axis: listed(map(numbers.size, own)) for axis, own in step.fitted_sizes.items()}
    if step.along == PAPER_SPLIT:
        examples = [f"{size:,.0f} examples" for size in step.fitted_sizes.get("num_examples", ())]
        return ", ".join(["the paper's sizes", *examples])
    return "; ".join(
        f"{own} examples" if axis == "num_examples" else f"{axis} {own}" for axis, own in sizes.items()
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

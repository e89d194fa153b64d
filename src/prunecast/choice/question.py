"""The question that `choose` answers: its target and budgets, and the law to answer it with."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.errors import PrunecastError
from prunecast.laws import AUTO, Fit, Prediction, fit, load, verdict
from prunecast.laws import findings as law_findings
from prunecast.metric import Metric
from prunecast.table import LARGEST, TINY, Table, as_table

MUCH_BETTER = 0.8
"""If every network gets below this share of its unpruned error when pruned, training was too short."""
ALLOW_AROUND = '--sizes around (sizes="around" in Python)'
"""How to ask for networks outside the measured range."""


class Measure(StrEnum):
    """What is minimised. Bytes and latency come from the table; the other measures are linear in density."""

    STORED = "stored"
    """non-zero weights, biases and normalisation"""
    NONZERO = "nonzero"
    """non-zero weights alone"""
    MULTIPLY_ADDS = "multiply-adds"
    """of one image, with zeros spread evenly over the layers"""
    PAPER = "paper"
    """l·w²·d"""
    BYTES = "bytes"
    """of the dense tensors"""
    LATENCY = "latency"
    """in milliseconds, as `prunecast time` measures it"""

    @property
    def unit(self) -> str:
        """The unit of a size in this measure."""
        return _UNITS[self]


_UNITS = {
    Measure.STORED: "stored parameters",
    Measure.NONZERO: "non-zero weights",
    Measure.MULTIPLY_ADDS: "multiply-adds",
    Measure.PAPER: "l·w²·d",
    Measure.BYTES: "bytes",
    Measure.LATENCY: "ms",
}
PARAMETERS = "parameters"
"""Another name of the measure `stored`."""


class SizeRange(StrEnum):
    """Which sizes of networks are candidates."""

    MEASURED = "measured"
    """those that were trained"""
    WITHIN = "within"
    """also those between them"""
    AROUND = "around"
    """also those somewhat smaller and larger"""


DEFAULT_SIZES = SizeRange.WITHIN
"""By default, answers stay within the measured range."""
DEFAULT_CONFIDENCE = 0.8
"""The default probability of meeting a target."""


def as_measure(name: str) -> Measure:
    """The measure of this name."""
    if name not in (*Measure, PARAMETERS):
        raise PrunecastError(f"no measure is called {name!r}; choose one of {', '.join(Measure)}")
    return Measure.STORED if name == PARAMETERS else Measure(name)


def as_size_range(name: str) -> SizeRange:
    """The range of sizes of this name."""
    if name not in list(SizeRange):
        raise PrunecastError(f"sizes can be {', '.join(SizeRange)}, not {name!r}")
    return SizeRange(name)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What was asked; a bound that was not given is None."""

    target_error: float | None = None
    """the largest error accepted, as a share"""
    max_parameters: float | None = None
    """in the measure that is minimised"""
    max_training: float | None = None
    """in training runs of the costliest measured network"""
    max_latency: float | None = None
    """in milliseconds"""
    minimise: Measure
    """the measure of size that is minimised"""
    confidence: float
    """probability that a new training run meets the target; at one half, its expected error does"""
    num_examples: float
    """training examples"""
    sizes: SizeRange
    """which sizes may be recommended: measured, within or around"""
    depth: float | None = None
    """the only depth to consider"""
    width: float | None = None
    """the only width to consider"""
    density: float | None = None
    """the only density to consider"""

    @property
    def budgeted(self) -> bool:
        """Whether parameters, training or latency are bounded."""
        return any(own is not None for own in (self.max_parameters, self.max_training, self.max_latency))

    def check(self, metric: Metric) -> None:
        """Refuse impossible values before any work."""
        check_target(self.target_error, metric)
        for name in ("max_parameters", "max_training", "max_latency", "depth", "width", "density"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise PrunecastError(f"{name} must be a positive number, not {value:g}")
            if value is not None and name in ("depth", "width", "density") and not TINY <= value <= LARGEST:
                raise PrunecastError(f"{name} must be from {TINY:g} to {LARGEST:g}, not {value:g}")
        if self.density is not None and self.density > 1:
            raise PrunecastError(
                f"density is the share of weights kept, so it must be at most 1, not {self.density:g}"
            )
        if not 0 < self.confidence < 1:
            raise PrunecastError(f"confidence must be a probability between 0 and 1, not {self.confidence:g}")


def question_for(
    fit: Fit,
    *,
    minimise: str = Measure.STORED,
    confidence: float = DEFAULT_CONFIDENCE,
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
    **bounds: float | None,
) -> Question:
    """A question about the networks of a fit; `bounds` are the target, the budgets and named sizes."""
    question = Question(
        minimise=as_measure(minimise),
        confidence=confidence,
        num_examples=examples_for(fit, num_examples),
        sizes=as_size_range(sizes),
        **bounds,
    )
    question.check(fit.metric)
    return question


def check_bounded(question: Question) -> None:
    """Refuse a question without a target, a budget or a density."""
    if question.target_error is None and question.density is None and not question.budgeted:
        raise PrunecastError(
            "choose needs a target error, a budget of parameters, training or latency, or a density: "
            "--target-error, --max-parameters, --max-training, --max-latency or --density"
        )


Given = Fit | Table | str | Path | pd.DataFrame
"""The source of an answer: a fitted law, a table, the file or the name of either, or a DataFrame."""


def as_fit(source: Given, law: str = AUTO) -> Fit:
    """The law itself, a saved law, or a law fitted to a table; by default the one that the data prefer.

    If every row of the table has a validation error, the law is fitted to validation errors.
    """
    if isinstance(source, Fit):
        return source
    if isinstance(source, str | Path) and Path(source).suffix == ".json":
        return load(source)
    table = as_table(source)
    return fit(validated(table) or table, law=law)


def predict(
    source: Given,
    density: npt.ArrayLike,
    *,
    depth: npt.ArrayLike | None = None,
    width: npt.ArrayLike | None = None,
    num_examples: npt.ArrayLike | None = None,
    unpruned_error: npt.ArrayLike | None = None,
    law: str = AUTO,
) -> Prediction:
    """The error of networks pruned to these densities: `Fit.predict` of a law, or of the one fitted to a table.

    Args:
        source: a fitted law, a table, a path or shipped name of one, the file of a saved law, or a DataFrame.
        density, depth, width, num_examples, unpruned_error: as in `Fit.predict`; they broadcast.
        law: the law to fit, if `source` is a table.

    Returns:
        A prediction: `error` with its 95% interval (`lower`, `upper`), arrays of the broadcast shape, and `frame`.

    Raises:
        PrunecastError: the source cannot be read, a size is needed and not given, or a value is impossible.
    """
    return as_fit(source, law).predict(
        density, depth=depth, width=width, num_examples=num_examples, unpruned_error=unpruned_error
    )


def validated(table: Table) -> Table | None:
    """The table with validation errors in place of test errors; None where a row has none.

    A network chosen by its test error is no longer tested by it, so choices use the validation errors where
    there are any.
    """
    name = str(Metric.VALIDATION_ERROR)
    if name not in table.frame or table.metric != Metric.ERROR:
        return None
    values = pd.to_numeric(table.frame[name], errors="coerce").to_numpy(dtype=float)
    if not (np.isfinite(values) & (values > 0) & (values <= 1)).all():
        return None
    return replace(table, frame=table.frame.assign(error=values), metric=Metric.VALIDATION_ERROR).select()


def check_target(target_error: float | None, metric: Metric) -> None:
    """Refuse a target that no network could have; a loss has no upper limit."""
    if target_error is None:
        return
    if not 0 < target_error < np.inf:
        raise PrunecastError(f"the target {metric.word} must be a positive number, not {target_error:g}")
    if target_error >= metric.highest:
        raise PrunecastError(
            f"the target {metric.word} is {target_error:g}, but it must be below {metric.highest:g}; if it is a "
            "percentage, divide by 100"
        )


def ceiling(fit: Fit) -> float:
    """The error that no network exceeds however far it is pruned: the high plateau, or the error of guessing."""
    return min(fit.high_error, np.inf if fit.origin.chance is None else fit.origin.chance)


def all_at_chance(fit: Fit) -> bool:
    """Whether every curve reaches chance, but has too few rows on the way."""
    short = [finding for finding in fit.findings if isinstance(finding, law_findings.CurvesTooShort)]
    return bool(short) and all(finding.more_levels is None for finding in short)


def pruned_much_better(fit: Fit) -> bool:
    """Whether every network gets much better when it is pruned, because training was too short."""
    return all(own.lowest_error < MUCH_BETTER * own.unpruned_error for own in fit.configurations)


def more_of_the_rise(fit: Fit) -> str:
    """What to do to see more of how the curves rise."""
    if not all_at_chance(fit):
        return "prune further"
    levels = "prune in smaller steps (a smaller `fraction`)"
    if pruned_much_better(fit):
        return f"train longer, because pruned networks are much better than unpruned ones, or {levels}"
    return levels


def check_reachable(target_error: float | None, fit: Fit, *, by_law: bool = False) -> None:
    """Refuse a target that every network meets however far it is pruned, because there is no smallest network then.

    If the law is unusable, trained networks can still answer, unless the answer must come from the law (`by_law`).
    """
    check_target(target_error, fit.metric)
    if target_error is None or target_error < ceiling(fit):
        return
    word, chance = fit.metric.word, fit.origin.chance
    if chance is not None and target_error >= chance:
        why = f"guessing has an error of {chance:g}, so any network reaches {target_error:g}"
    elif not by_law and not verdict(fit).usable:
        return
    elif fit.plateau in fit.undetermined:
        raise PrunecastError(
            f"the data do not show how far the {word} rises (the law guesses {fit.high_error:.3g}), so it is unknown "
            f"which networks reach {target_error:g}; ask for a lower {word}, or {more_of_the_rise(fit)}"
        )
    else:
        why = (
            f"the law's high plateau is at {fit.high_error:.3g}, so any network stays below {target_error:g} "
            "however far it is pruned"
        )
    raise PrunecastError(f"{why}; ask for a lower {word}")


def examples_for(fit: Fit, num_examples: float | None) -> float:
    """The number of examples to choose for: the one asked for, else the largest measured."""
    known = sorted({c.num_examples for c in fit.configurations})
    if num_examples is None:
        return known[-1]
    if not 0 < num_examples < np.inf:
        raise PrunecastError(f"the number of examples must be a positive number, not {num_examples:g}")
    if not TINY <= num_examples <= LARGEST:
        raise PrunecastError(
            f"the number of examples must be from {TINY:g} to {LARGEST:g}, not {num_examples:g}"
        )
    if fit.dense is None and not any(np.isclose(num_examples, n) for n in known):
        if "num_examples" not in fit.columns:
            raise PrunecastError("the table has no column num_examples: leave num_examples out")
        listed = ", ".join(f"{n:g}" for n in known)
        raise PrunecastError(
            f"no network was trained on {num_examples:g} examples, and there are too few configurations to fit a law "
            f"of the unpruned {fit.metric.word}; choose one of {listed}"
        )
    return float(num_examples)

"""The canonical columns, their synonyms, and how a header is matched to them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from prunecast.errors import TableError
from prunecast.metric import SCORE, Metric
from prunecast.table.options import column_option, metric_option
from prunecast.text import (
    name_words,
    nearest,
    normalized,
    plain_count,
    without_average,
    without_cutoff,
    without_percent,
)

NAMES = ("family", "dataset", "method", "recipe")
CONFIGURATION = ("depth", "width", "num_examples")
CANONICAL = (*NAMES, *CONFIGURATION, "replicate", "level", "density", "error", "unpruned_error")
COUNTS = ("parameters", "weights", "nonzero")
"""Optional columns with numbers of weights, which some laws read."""
LATENCY = "latency_ms"
COSTS = ("remaining_parameters", "bytes", "multiply_adds", LATENCY)
"""Optional columns with the cost of a row's network, which choices read."""
Runtime = Literal["torch", "onnx", "cuda"]
RUNTIMES: tuple[Runtime, ...] = get_args(Runtime)
"""Runtimes in which networks are timed: PyTorch and ONNX Runtime on a CPU, PyTorch on a GPU."""
TIMED_WITH = "timed_with"
"""An optional column that says how latencies were measured: runtime, batch and threads, joined by hyphens."""


def other_latency(column: str) -> tuple[str, int] | None:
    """Runtime and batch of an optional column such as latency_ms_onnx_64; None for other columns."""
    runtime, _, batch = column.removeprefix(f"{LATENCY}_").partition("_")
    images = plain_count(batch, digits=5)
    known = images and column == f"{LATENCY}_{runtime}_{images}" and runtime in RUNTIMES
    return (runtime, images) if known and images else None


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_COMMON = {
    "family": _words("model_family architecture arch model network"),
    "dataset": _words("data_set data"),
    "method": _words("pruning_method pruner algorithm"),
    "recipe": _words("training_recipe"),
    "depth": _words("l layers num_layers n_layers"),
    "width": _words("w width_multiplier width_mult width_factor width_scale width_scaling"),
    "num_examples": _words(
        "n dataset_size data_size train_size training_size examples n_examples num_train n_train"
        " training_examples train_examples num_samples samples"
    ),
    "replicate": _words("seed random_seed rep repeat repetition run trial"),
    "level": _words(
        "pruning_level prune_level iteration pruning_iteration imp_iteration round pruning_round"
    ),
    "density": _words(
        "d kept share_kept fraction_kept weights_kept remaining weights_remaining remaining_weights"
        " fraction_remaining remaining_fraction"
    ),
}
_ERROR = {
    "error": _words(
        "test_error err test_err eps epsilon error_rate test_error_rate top1_error top1_err classification_error"
    ),
    "unpruned_error": _words(
        "eps_np epsilon_np dense_error error_np error_dense error_unpruned baseline_error"
    ),
}
_LOSS = {
    "error": _words("test_loss perplexity test_perplexity ppl cross_entropy val_loss validation_loss"),
    "unpruned_error": _words(
        "dense_loss loss_np loss_dense loss_unpruned unpruned_perplexity dense_perplexity"
        " unpruned_cross_entropy dense_cross_entropy"
    ),
}
_COMPLEMENTS = {
    "density": _words(
        "sparsity sparsity_ratio sparsity_level pruned fraction_pruned pruned_fraction pruning_ratio"
    ),
    "error": _words("accuracy acc test_accuracy test_acc top1 top1_accuracy top1_acc acc@1 acc1"),
    "unpruned_error": _words(
        "unpruned_accuracy dense_accuracy accuracy_np accuracy_dense baseline_accuracy baseline_acc"
    ),
}
_INVERSES = {
    "density": _words("compression compression_ratio compression_rate compression_factor"),
}
"""Names of one divided by a quantity."""
_SCORES = {
    "f1": _words("f1_score macro_f1 micro_f1"),
    "bleu": _words("bleu_score sacrebleu"),
    "rouge": _words("rouge_l rougel"),
    "auc": _words("auroc roc_auc"),
    "map": _words("mean_average_precision"),
    "miou": _words("mean_iou"),
    "iou": (),
    "exact_match": _words("em"),
    "precision": (),
    "recall": (),
    "dice": (),
}
"""Metrics where higher is better, and their other names."""
_LOWER = {"perplexity": _words("ppl"), "cross_entropy": _words("ce xent")}
"""Metrics other than the loss where lower is better, and their other names."""


class Transform(StrEnum):
    """How a quantity is computed from its column."""

    SAME = "same"
    COMPLEMENT = "complement"
    """one minus the column"""
    INVERSE = "inverse"
    """one divided by the column"""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Which column of the source holds a canonical quantity, and how the quantity is computed from it."""

    column: str
    transform: Transform = Transform.SAME
    times: float = 1.0
    divided_by: float = 1.0
    """the column's values are multiplied and divided by these first: divided by 100 where they are percentages"""

    def of(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The quantity, from the column's values."""
        scaled = values * self.times / self.divided_by
        if self.transform is Transform.INVERSE:
            with np.errstate(divide="ignore"):
                return np.asarray(1 / scaled)
        return 1 - scaled if self.transform is Transform.COMPLEMENT else scaled

    @property
    def computed(self) -> bool:
        """Whether the quantity differs from what the column holds."""
        return self.transform is not Transform.SAME or self.times != 1 or self.divided_by != 1


def as_metric(name: str) -> Metric:
    """The metric with this name: a quantity where lower is better, or a score where higher is better."""
    own = normalized(name.removeprefix(SCORE))
    errors = {normalized(word) for word in ("error", *_ERROR["error"], *_COMPLEMENTS["error"])}
    if own in errors:
        return Metric.ERROR
    for known, others in (_SCORES | _LOWER).items():
        if own in map(normalized, (known, *others)):
            return Metric(f"{SCORE}{known}" if known in _SCORES or name.startswith(SCORE) else known)
    text = name.strip().replace(" ", "_")
    if _of_a_cutoff(name):
        return Metric(f"{SCORE}{text.removeprefix(SCORE)}")
    if not text.removeprefix(SCORE) or own == normalized(Metric.VALIDATION_ERROR):
        raise TableError(
            f"there is no metric {name!r}; name a column where lower is better, or error, loss, perplexity, "
            f"{', '.join(_SCORES)}."
        )
    return Metric(text)


def _of_a_cutoff(name: str) -> bool:
    """Whether a name is that of a score with a number, such as mAP50, recall@5 or F1@0.5."""
    return normalized(without_cutoff(name.removeprefix(SCORE))) in _SCORES


def synonyms(canonical: str, metric: Metric) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Other names of a quantity: those that mean it, and those that mean one minus it."""
    if canonical in _COMMON:
        return _COMMON[canonical], _COMPLEMENTS.get(canonical, ())
    if metric is Metric.LOSS:
        return _LOSS[canonical], ()
    if metric is Metric.ERROR:
        return _ERROR[canonical], _COMPLEMENTS[canonical]
    name = metric.score or str(metric)
    known = (name, *_SCORES.get(name, ()), *_LOWER.get(name, ()))
    patterns = _MEASURED if canonical == "error" else _UNPRUNED
    own = tuple(pattern.format(word) for word in known for pattern in patterns)
    return ((), own) if metric.score else (own, ())


_MEASURED = ("{}", "test_{}", "val_{}", "eval_{}", "{}_score")
_UNPRUNED = ("unpruned_{}", "dense_{}", "{}_unpruned", "{}_dense", "{}_np")


def title(canonical: str, metric: Metric) -> str:
    """The name of a canonical column in messages: `error` is called loss if losses are the metric."""
    return {"error": metric.column, "unpruned_error": f"unpruned_{metric.column}"}.get(canonical, canonical)


def _known_words() -> set[str]:
    """Every name that a column with a meaning can have."""
    metrics = (Metric.ERROR, Metric.LOSS)
    names = {word for name in CANONICAL for metric in metrics for word in (title(name, metric), name)}
    names |= {
        word for name in CANONICAL for metric in metrics for part in synonyms(name, metric) for word in part
    }
    return {normalized(word) for word in (*names, *_INVERSES["density"], *COUNTS, "chance_error")}


def with_meaning(columns: Sequence[str], metric: Metric) -> list[str]:
    """The columns with a known meaning, which are read directly or converted."""
    words = (word for name in ("error", "unpruned_error") for part in synonyms(name, metric) for word in part)
    known = _KNOWN | set(map(normalized, words))
    return [column for column in columns if normalized(column) in known]


_KNOWN = _known_words()


def bind(
    columns: Sequence[str],
    metric: Metric,
    label: str,
    largest: Callable[[], Mapping[str, float]],
    melt: Callable[[], str],
    empty: Sequence[str] = (),
) -> dict[str, Binding]:
    """Match a header to the canonical columns; ambiguous and missing columns are refused.

    With a metric other than errors, the canonical `error` is the column of that name or one of its synonyms, never a
    column of errors. If a required column is missing, the refusal suggests a column of numbers without a known meaning
    (`largest` gives the largest value of each), says that it is among the `empty` ones, or gives the sentence
    of `melt`, which makes rows of columns.
    """
    found = {name: _bind_one(name, columns, metric, label) for name in CANONICAL}
    bound = {name: binding for name, binding in found.items() if binding is not None}
    missing = [name for name in ("density", "error") if name not in bound]
    for name in missing:
        hollow = _bind_one(name, empty, metric, label)
        if hollow is not None:
            raise TableError(
                f"{label}: column {hollow.column} is empty, but a table needs {title(name, metric)} in every row."
            )
    if missing:
        if option := melt():
            raise TableError(f"{label}: {_absent(missing, columns, metric)} {option}")
        unused = _unused(bound, columns, largest(), metric)
        raise TableError(f"{label}: {_missing(missing, columns, metric, unused)}")
    return bound


def _bind_one(canonical: str, columns: Sequence[str], metric: Metric, label: str) -> Binding | None:
    """The column of the canonical name itself, in any spelling, else the only one with a synonym."""
    name = title(canonical, metric)
    same, complements = (set(map(normalized, words)) for words in synonyms(canonical, metric))
    inverses = set(map(normalized, _INVERSES.get(canonical, ())))
    score = {normalized(metric.score)} if canonical == "error" and metric.score else set()
    for accepted in ({normalized(name)}, score, same | complements, inverses):
        hits = [column for column in columns if normalized(column) in accepted]
        if name in hits:
            hits = [name]
        if len(hits) > 1:
            transform = _transform(hits[0], complements, inverses)
            raise TableError(
                f"{label}: columns {' and '.join(hits)} both mean {name}. Rename the right one to {name}, or use "
                f"{column_option(**{name: _FORMULA[transform].format(hits[0])})} to take {hits[0]}."
            )
        if hits:
            return Binding(column=hits[0], transform=_transform(hits[0], complements, inverses))
    return None


def _transform(column: str, complements: set[str], inverses: set[str]) -> Transform:
    word = normalized(column)
    if word in complements:
        return Transform.COMPLEMENT
    return Transform.INVERSE if word in inverses else Transform.SAME


_FORMULA = {Transform.SAME: "{}", Transform.COMPLEMENT: "1-{}", Transform.INVERSE: "1/{}"}
_RESERVED = {normalized(name) for name in ("chance_error", *COUNTS, *COSTS)}


def _unused(
    bound: Mapping[str, Binding], columns: Sequence[str], largest: Mapping[str, float], metric: Metric
) -> dict[str, float]:
    """The largest value of each column of numbers that has no meaning so far."""
    taken = {binding.column for binding in bound.values()} | {_of_other_metric(columns, metric)}
    return {
        name: most
        for name, most in largest.items()
        if name not in taken and normalized(name) not in _RESERVED
    }


def _missing(missing: list[str], columns: Sequence[str], metric: Metric, unused: Mapping[str, float]) -> str:
    """What is missing, and the most likely remedy."""
    names = [title(name, metric) for name in missing]
    other = _of_other_metric(columns, metric) if missing == ["error"] else None
    if other is not None and metric is not Metric.ERROR:
        name = metric.score or str(metric)
        return (
            f"there is no column {name}, which {metric_option(name)} needs. Leave that option out to use the errors in "
            f"column {other}, or rename the column to {name} if it holds {metric.plural}."
        )
    text = _absent(missing, columns, metric)
    formulas = {title(name, metric): formula for name in missing if (formula := _guess(name, metric, unused))}
    if formulas:
        read = " and ".join(f"{formula} as {name}" for name, formula in formulas.items())
        return f"{text} To read {read}, use {column_option(**formulas)}."
    if other is not None:
        return f"{text} To read column {other}, use {metric_option(_metric_name(other))}."
    measured = [name for name in unused if _metric_in(name)] if missing == ["error"] else []
    if len(measured) == 1 and metric is Metric.ERROR:
        return f"{text} To read column {measured[0]}, use {metric_option(_metric_in(measured[0]))}."
    unclear = [name for name, most in unused.items() if names[0] != "density" or most <= 100]
    likely = nearest(names[0], columns) or (unclear[0] if len(unclear) == 1 else None)
    if set(columns) == set(with_meaning(columns, metric)):
        return text
    if likely is None or len(missing) > 1:
        return f"{text} {_any_column(names, columns)}"
    return f"{text} {_suggested(missing[0], likely, metric)}"


def _absent(missing: Sequence[str], columns: Sequence[str], metric: Metric) -> str:
    """Which required columns are missing, and which there are."""
    absent = " and no column ".join(title(name, metric) for name in missing)
    found = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
    needed = f"A table needs density and {title('error', metric)}"
    return f"there is no column {absent}. {needed}; the columns found are {found}."


def _any_column(names: Sequence[str], columns: Sequence[str]) -> str:
    """How to name columns whose meaning nothing shows."""
    if sum(column.startswith("unnamed_") for column in columns) >= len(columns) / 2:
        return "If the header is not the first line, remove the lines above it."
    options = " ".join(f"--column {name}=COLUMN" for name in names)
    which = "them" if len(names) > 1 else "it"
    return (
        f"Name the {'columns that hold' if len(names) > 1 else 'column that holds'} {which} with {options}, where "
        "1-COLUMN is for a sparsity or an accuracy, and COLUMN/100 for percentages."
    )


_PARTS = ("test", "val", "eval", "")
"""The data whose error is preferred, in this order; never the training data."""


def _guess(canonical: str, metric: Metric, unused: Mapping[str, float]) -> str | None:
    """A formula for a quantity, from a column whose name has a path or a unit: test/acc, Error (%)."""
    same, complements = (set(map(normalized, words)) for words in synonyms(canonical, metric))
    same |= {normalized(title(canonical, metric))}
    inverses = set(map(normalized, _INVERSES.get(canonical, ())))
    found: dict[str, str] = {}
    for column, most in unused.items():
        path, _, last = column.rpartition("/")
        word = normalized(without_average(without_percent(last)[0]))
        if word not in same | complements | inverses or "train" in normalized(path):
            continue
        transform = _transform(word, complements, inverses)
        share = (canonical == "density" or metric.is_share) and transform is not Transform.INVERSE
        divided = f"{column}/100" if share and 1 < most <= 100 else column
        part = next(own for own in _PARTS if own in normalized(path))
        found.setdefault(part, _FORMULA[transform].format(divided))
    return next((found[part] for part in _PARTS if part in found), None)


def _suggested(name: str, column: str, metric: Metric) -> str:
    """What a column without a known meaning could be, and the option to read it as that."""
    if name == "density":
        return (
            f"If {column} is the share of weights kept, use {column_option(density=column)}. If it is the share "
            f"pruned, use {column_option(density=f'1-{column}')}."
        )
    option = column_option(**{title(name, metric): column})
    if metric is not Metric.ERROR:
        return f"If {column} is the {metric.word}, use {option}."
    text = f"If {column} is the share of wrong answers, use {option}."
    if normalized(column).endswith("error"):
        return text
    return (
        f"{text} If it is another metric where lower is better, use {metric_option(column)}; if higher is better, "
        f"{metric_option(SCORE + column)}."
    )


def _metric_name(column: str) -> str:
    """The metric that a column of losses or scores holds."""
    word = normalized(column)
    if _of_a_cutoff(column):
        return column
    for known, others in (_SCORES | _LOWER).items():
        if word in {normalized(pattern.format(own)) for own in (known, *others) for pattern in _MEASURED}:
            return known
    return str(Metric.LOSS)


def _metric_in(column: str) -> str:
    """A column as a metric, if its name has a word for one, such as wikitext2 ppl or F1-score (%); else ""."""
    words = set(map(normalized, name_words(column)))
    for known, before in ((_SCORES, SCORE), (_LOWER, "")):
        if words & {normalized(word) for own, others in known.items() for word in (own, *others)}:
            return before + column
    return ""


def _of_other_metric(columns: Sequence[str], metric: Metric) -> str | None:
    """The first column that holds errors where another metric is wanted, or losses or scores where errors are."""
    if metric is not Metric.ERROR:
        names = {
            normalized(word) for words in (("error",), *synonyms("error", Metric.ERROR)) for word in words
        }
        return next((column for column in columns if normalized(column) in names), None)
    losses = {normalized(word) for word in ("loss", *_LOSS["error"])}
    return next(
        (own for own in columns if normalized(own) in losses or _metric_name(own) != Metric.LOSS), None
    )

"""The canonical columns, their synonyms, and the matching of a header to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunecast.errors import TableError
from prunecast.metric import Metric
from prunecast.text import nearest, normalized

NAMES = ("family", "dataset", "method", "recipe")
CONFIGURATION = ("depth", "width", "num_examples")
CANONICAL = (*NAMES, *CONFIGURATION, "replicate", "level", "density", "error", "unpruned_error")
COUNTS = ("parameters", "weights", "nonzero")
"""Optional columns with numbers of weights, which some laws read."""
METRICS = (Metric.ERROR, Metric.LOSS)
"""What a table can be read as; validation errors are a column of a table of errors."""


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
    "unpruned_error": _words("eps_np epsilon_np dense_error error_np error_dense error_unpruned"),
}
_LOSS = {
    "error": _words("test_loss perplexity test_perplexity ppl cross_entropy val_loss validation_loss"),
    "unpruned_error": _words(
        "dense_loss loss_np loss_dense loss_unpruned unpruned_perplexity dense_perplexity"
        " unpruned_cross_entropy dense_cross_entropy"
    ),
}
_COMPLEMENTS = {
    "density": _words("sparsity pruned fraction_pruned pruned_fraction pruning_ratio"),
    "error": _words("accuracy acc test_accuracy test_acc top1 top1_accuracy top1_acc"),
    "unpruned_error": _words("unpruned_accuracy dense_accuracy accuracy_np accuracy_dense"),
}
_MEANING = {
    "density": "the share of weights kept",
    "error": "the share of wrong answers",
    "loss": "the loss",
}
_AS_LOSS = 'use --metric loss (metric="loss" in Python)'


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Which column of the source holds a canonical quantity, and whether it holds one minus the quantity."""

    column: str
    complement: bool


def synonyms(canonical: str, metric: Metric) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Other names of a quantity: those that mean it, and those that mean one minus it."""
    if canonical in _COMMON:
        return _COMMON[canonical], _COMPLEMENTS.get(canonical, ())
    if metric is Metric.LOSS:
        return _LOSS[canonical], ()
    return _ERROR[canonical], _COMPLEMENTS[canonical]


def title(canonical: str, metric: Metric) -> str:
    """What a canonical column is called for people: `error` holds losses if these are the metric."""
    as_loss = {"error": "loss", "unpruned_error": "unpruned_loss"} if metric is Metric.LOSS else {}
    return as_loss.get(canonical, canonical)


def bind(columns: Sequence[str], metric: Metric, label: str, numeric: Sequence[str]) -> dict[str, Binding]:
    """Match a header to the canonical columns; ambiguous and missing columns are refused.

    With the metric LOSS, the canonical `error` is the column `loss` or one of its synonyms, never a column of errors.
    If a required column is missing, the refusal suggests one of the `numeric` columns without a known meaning.
    """
    found = {name: _bind_one(name, columns, metric, label) for name in CANONICAL}
    bound = {name: binding for name, binding in found.items() if binding is not None}
    missing = [title(name, metric) for name in ("density", "error") if name not in bound]
    if missing:
        raise TableError(f"{label}: {_missing(missing, bound, columns, metric, numeric)}")
    return bound


def _bind_one(canonical: str, columns: Sequence[str], metric: Metric, label: str) -> Binding | None:
    """The column of the canonical name itself, in any spelling, else the only one with a synonym."""
    name = title(canonical, metric)
    same, complements = (set(map(normalized, words)) for words in synonyms(canonical, metric))
    for accepted in ({normalized(name)}, same | complements):
        hits = [column for column in columns if normalized(column) in accepted]
        if name in hits:
            hits = [name]
        if len(hits) > 1:
            raise TableError(
                f"{label}: columns {' and '.join(hits)} both mean {name}; rename the right one to {name}."
            )
        if hits:
            return Binding(column=hits[0], complement=normalized(hits[0]) in complements)
    return None


def _missing(
    missing: list[str],
    bound: Mapping[str, Binding],
    columns: Sequence[str],
    metric: Metric,
    numeric: Sequence[str],
) -> str:
    """What is missing, and the most likely remedy."""
    other = _of_other_metric(columns, metric) if missing == [metric] else None
    if other is not None and metric is Metric.LOSS:
        return (
            'there is no column loss, which --metric loss (metric="loss" in Python) needs. Leave that option out to '
            f"use the errors in column {other}, or rename the column to loss if it holds losses."
        )
    text = (
        f"there is no column {' and no column '.join(missing)}. A table needs density and {title('error', metric)};"
        f" the columns found are {', '.join(columns[:20])}{', ...' if len(columns) > 20 else ''}."
    )
    if other is not None:
        text += f" For a table of losses, {_AS_LOSS}."
    if len(missing) > 1:
        return text
    taken = {binding.column for binding in bound.values()} | {other}
    unused = [name for name in numeric if name not in taken and normalized(name) not in _RESERVED]
    similar = nearest(missing[0], columns)
    if similar:
        return f"{text} If {similar} is {_MEANING[missing[0]]}, rename it to {missing[0]}."
    if len(unused) != 1:
        return text
    text += f" If {unused[0]} is {_MEANING[missing[0]]}, rename it to {missing[0]}."
    return f"{text} If it is a loss, rename it to loss and {_AS_LOSS}." if missing == ["error"] else text


_RESERVED = {normalized(name) for name in ("chance_error", *COUNTS)}


def _of_other_metric(columns: Sequence[str], metric: Metric) -> str | None:
    """The first column that holds errors where losses are wanted, or losses where errors are."""
    other = Metric.LOSS if metric is Metric.ERROR else Metric.ERROR
    names = {normalized(word) for words in ((other,), *synonyms("error", other)) for word in words}
    return next((column for column in columns if normalized(column) in names), None)

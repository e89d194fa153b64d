"""The canonical columns, their synonyms, and how a header is matched to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prunecast.table.errors import TableError
from prunecast.text import nearest, normalized

NAMES = ("family", "dataset", "method", "recipe")
CONFIGURATION = ("depth", "width", "num_examples")
CANONICAL = (*NAMES, *CONFIGURATION, "replicate", "level", "density", "error", "unpruned_error")
METRICS = ("error", "loss")


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
_ERROR = _words(
    "test_error err test_err eps epsilon error_rate test_error_rate top1_error top1_err classification_error"
)
_UNPRUNED = _words("eps_np epsilon_np dense_error error_np error_dense error_unpruned")
_LOSS = _words("test_loss perplexity test_perplexity ppl cross_entropy val_loss validation_loss")
_UNPRUNED_LOSS = _words(
    "dense_loss loss_np loss_dense loss_unpruned unpruned_perplexity dense_perplexity"
    " unpruned_cross_entropy dense_cross_entropy"
)
_COMPLEMENTS = {
    "density": _words("sparsity pruned fraction_pruned pruned_fraction pruning_ratio"),
    "error": _words("accuracy acc test_accuracy test_acc top1 top1_accuracy top1_acc"),
    "unpruned_error": _words("unpruned_accuracy dense_accuracy accuracy_np accuracy_dense"),
}
_COUNTS = {normalized(word) for word in ("chance_error", "parameters", "weights", "nonzero")}
_MEANING = {
    "density": "the share of weights kept, in (0, 1]",
    "error": "a share in (0, 1] that is lower for better networks",
    "loss": "the loss",
}


@dataclass(frozen=True, kw_only=True)
class Binding:
    """Which column of a file holds a canonical quantity, and whether as it is or as one minus it."""

    column: str
    complement: bool


def synonyms(canonical: str, metric: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Other names of a quantity: those that mean it, and those that mean one minus it."""
    complements = _COMPLEMENTS.get(canonical, ())
    if canonical not in ("error", "unpruned_error"):
        return _COMMON[canonical], complements
    if metric == "loss":
        return (_LOSS if canonical == "error" else _UNPRUNED_LOSS), ()
    return (_ERROR if canonical == "error" else _UNPRUNED), complements


def bind(columns: Sequence[str], metric: str, label: str, numeric: Sequence[str] = ()) -> dict[str, Binding]:
    """Match a header to the canonical columns; ambiguous and missing columns are refused.

    Where one is missing, those of the `numeric` columns that mean nothing else may be it under another name.

    With the metric "loss" the canonical `error` is the column `loss` or a synonym of it, never one of errors.
    """
    found = {name: _bind_one(name, named(name, metric), columns, metric, label) for name in CANONICAL}
    bound = {name: binding for name, binding in found.items() if binding is not None}
    _require(bound, columns, metric, label, numeric)
    return bound


def named(canonical: str, metric: str) -> str:
    """What people call a canonical column: `error` holds losses where these are the metric."""
    return canonical.replace("error", "loss") if metric == "loss" else canonical


def _bind_one(canonical: str, first: str, columns: Sequence[str], metric: str, label: str) -> Binding | None:
    same, complements = (set(map(normalized, words)) for words in synonyms(canonical, metric))
    for accepted in ({normalized(first)}, same | complements):
        hits = [column for column in columns if normalized(column) in accepted]
        if first in hits:
            hits = [first]
        if len(hits) > 1:
            listed = " and ".join(hits)
            raise TableError(
                f"{label}: columns {listed} both mean {canonical}; rename the right one to {first}"
            )
        if hits:
            return Binding(column=hits[0], complement=normalized(hits[0]) in complements)
    return None


def _require(
    bound: Mapping[str, Binding], columns: Sequence[str], metric: str, label: str, numeric: Sequence[str]
) -> None:
    missing = [named(name, metric) for name in ("density", "error") if name not in bound]
    if not missing:
        return
    other = _of_other_metric(columns, metric) if missing == [metric] else None
    if other is not None and metric == "loss":
        raise TableError(
            f'{label}: no column loss, which --metric loss (metric="loss" in Python) asks for; leave that out to use '
            f"the errors of column {other}, or rename the column to loss if it holds losses"
        )
    found = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
    lacking = " and none ".join(missing)
    words = f"{label}: no column {lacking}; a table needs density and {named('error', metric)}"
    if other is not None:
        words += ' (for a table of losses say --metric loss, or metric="loss" in Python)'
    taken = {binding.column for binding in bound.values()}
    spare = [
        name for name in numeric if name not in taken and name != other and normalized(name) not in _COUNTS
    ]
    rename = _rename(missing[0], columns, spare) if len(missing) == 1 else ""
    raise TableError(f"{words}, and the columns found are: {found}{rename}")


def _rename(missing: str, columns: Sequence[str], spare: Sequence[str]) -> str:
    """Which column to rename: one of a similar name, else the only numbers of unknown meaning."""
    near = nearest(missing, columns)
    if near:
        return f"; rename {near} to {missing}, if that is it"
    if len(spare) != 1:
        return ""
    words = f"; if {spare[0]} is {_MEANING[missing]}, rename it to {missing}"
    return words + (
        '; if it is a loss, rename it to loss and say --metric loss (metric="loss" in Python)'
        if missing == "error"
        else ""
    )


def _of_other_metric(columns: Sequence[str], metric: str) -> str | None:
    """The first column that holds errors where losses are wanted, or losses where errors are."""
    other = "loss" if metric == "error" else "error"
    theirs = {normalized(word) for words in ((other,), *synonyms("error", other)) for word in words}
    return next((column for column in columns if normalized(column) in theirs), None)

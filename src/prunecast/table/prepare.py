"""Changes to a file's columns before they are matched: columns that the caller defines, and empty ones.

It also finds columns that serve as an axis only if a table has no better one: numbers of parameters, tokens or steps.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from prunecast.errors import TableError
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.table import findings
from prunecast.table.columns import CANONICAL, COUNTS, Binding, Transform, synonyms, title, with_meaning
from prunecast.table.counts import FEW
from prunecast.table.options import column_option
from prunecast.table.parse import Places
from prunecast.table.selection import find_column
from prunecast.table.values import Numbers, as_numbers, not_a_number
from prunecast.text import count_in, did_you_mean, listed, normalized, parse_number

SETTABLE = (*CANONICAL, *COUNTS, "chance_error")
"""Names that a caller can define a column as."""
PERCENT = 100.0
DEPTH_DIGITS = 9
"""Longer numbers in a name are not depths."""
SIZES = ("parameters", "params", "num_params", "num_parameters", "n_params", "n_parameters", "model_size")
"""Names of a size that is used if there is neither depth nor width."""
DATA = (
    "tokens",
    "num_tokens",
    "n_tokens",
    "training_tokens",
    "train_tokens",
    "steps",
    "num_steps",
    "training_steps",
)
"""Names of an amount of data that is used if there is no number of examples."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Columns of a source, ready to be matched to the canonical ones."""

    frame: pd.DataFrame
    empty: tuple[str, ...] = ()
    """columns that prunecast knows but that are empty; they were removed"""
    findings: tuple[Finding, ...] = ()


def prepare(
    frame: pd.DataFrame,
    places: Places,
    metric: Metric,
    columns: Mapping[str, str] | None = None,
    depth_from: str | None = None,
) -> Prepared:
    """Define columns as asked, and remove empty ones that would have a meaning."""
    found: list[Finding] = []
    if depth_from is not None:
        frame, own = _depth_from(frame, depth_from, places.label)
        found.append(own)
    for name, formula in (columns or {}).items():
        frame, own = _define(frame, _settable(name, metric, places.label), formula, places)
        found.append(own)
    empty = tuple(name for name in with_meaning(list(frame.columns), metric) if is_empty(frame[name]))
    found += [findings.ColumnEmpty(column=name, name=_canonical(name, metric)) for name in empty]
    return Prepared(frame=frame.drop(columns=list(empty)), empty=empty, findings=tuple(found))


def last_axes(
    frame: pd.DataFrame, bound: Mapping[str, Binding]
) -> tuple[pd.DataFrame, dict[str, Binding], tuple[Finding, ...]]:
    """Tokens or steps as the amount of data, and parameters as the size, if the table has no better column.

    Widths are then square roots of the share of the largest network's parameters, since weights grow with width².
    """
    found, density = dict(bound), bound["density"].of(as_numbers(frame[bound["density"].column]))
    data = None if "num_examples" in bound else _serving(frame, DATA, density)
    if data is not None:
        found["num_examples"] = Binding(column=data)
    size = None if {"depth", "width"} & set(bound) else _serving(frame, SIZES, density)
    if size is None:
        return frame, found, ()
    values = as_numbers(frame[size])
    frame = frame.assign(width=np.sqrt(values / values.max()))
    if values.max() >= FEW and not {"weights", "nonzero"} & set(frame.columns):
        frame = frame.assign(weights=values)
    found["width"] = Binding(column="width")
    return frame, found, (findings.SizeFromParameters(column=size, largest=float(values.max())),)


def _serving(frame: pd.DataFrame, names: Iterable[str], density: Numbers) -> str | None:
    """The first column with such a name that differs between networks, if each value was pruned."""
    known = set(map(normalized, names))
    for column in (own for own in frame.columns if normalized(own) in known):
        values = as_numbers(frame[column])
        pruned = pd.Series(density).groupby(values, dropna=False).nunique()
        if (np.isfinite(values) & (values > 0)).all() and len(pruned) > 1 and (pruned > 1).all():
            return str(column)
    return None


def in_percent(frame: pd.DataFrame, bound: Mapping[str, Binding]) -> dict[str, Binding]:
    """The bindings; accuracies and scores that are mostly above 1, and never above 100, count as percentages."""
    found = dict(bound)
    for name in ("error", "unpruned_error"):
        if name in bound and bound[name].transform is Transform.COMPLEMENT:
            values = as_numbers(frame[bound[name].column])
            values = values[np.isfinite(values)]
            if len(values) and (values > 1).mean() > 0.5 and values.max() <= PERCENT:
                found[name] = replace(bound[name], divided_by=PERCENT)
    return found


def is_empty(column: "pd.Series[Any]") -> bool:
    """Whether no row has a value."""
    if column.isna().all():
        return True
    if getattr(column.dtype, "kind", "O") in "biufmMc":
        return False
    return all(
        value is None or value is pd.NA or value != value or (isinstance(value, str) and not value.strip())
        for value in column
    )


def _canonical(column: str, metric: Metric) -> str:
    """The canonical name of a column with a meaning."""
    for name in CANONICAL:
        words = (name, title(name, metric), *synonyms(name, metric)[0], *synonyms(name, metric)[1])
        if normalized(column) in map(normalized, words):
            return name
    return column


def _settable(name: str, metric: Metric, label: str) -> str:
    """The canonical name that a caller means, as this metric calls it."""
    names = {normalized(own): title(own, metric) for own in SETTABLE}
    names |= {normalized(title(own, metric)): title(own, metric) for own in SETTABLE}
    if normalized(name) not in names:
        guess = did_you_mean(name, SETTABLE)
        raise TableError(
            f"{label}: prunecast has no column {name!r}.{guess} Its columns are {listed(SETTABLE)}."
        )
    return names[normalized(name)]


def _define(frame: pd.DataFrame, name: str, formula: str, places: Places) -> tuple[pd.DataFrame, Finding]:
    """The frame with a column of this name by a formula; a plain name renames the column."""
    binding = parse_formula(formula, list(frame.columns), places.label)
    values: Any = frame[binding.column]
    if name == "parameters" and np.isnan(as_numbers(values)).any():
        values = values.map(lambda cell: count_in(str(cell)) or cell)
    if binding.computed:
        given = as_numbers(values)
        words = np.isnan(given) & np.array([isinstance(own, str) and bool(own.strip()) for own in values])
        if words.any():
            places.refuse(words, not_a_number(binding.column, values.iloc[int(np.argmax(words))]))
        values = pd.Series(binding.of(given), index=frame.index)
        frame = frame.drop(columns=name, errors="ignore")
    else:
        frame = frame.drop(columns=binding.column)
    if name in frame.columns:
        frame = frame.rename(columns={name: f"original_{name}"})
    finding = findings.ColumnDefined(name=name, formula=formula)
    return pd.concat([frame, pd.Series(values, name=name)], axis=1), finding


def parse_formula(formula: str, columns: Iterable[str], label: str) -> Binding:
    """COLUMN, COLUMN*NUMBER, COLUMN/NUMBER, 1 minus one of these, or 1/COLUMN.

    A column of the formula's own name comes first, so that names with such signs can be used.
    """
    known = {normalized(name): name for name in columns} | {name: name for name in columns}
    text = formula.strip()
    after = text.removeprefix("1").strip() if text.startswith("1") else ""
    sign = {"-": Transform.COMPLEMENT, "/": Transform.INVERSE}.get(after[:1], Transform.SAME)
    rest = text if sign is Transform.SAME else after[1:].strip()
    for part, transform in ((text, Transform.SAME), (rest, sign)):
        for column, (times, divided_by) in _factors(part):
            name = known.get(column) or known.get(normalized(column))
            plain = times == divided_by == 1 or transform is not Transform.INVERSE
            if name is not None and plain:
                return Binding(column=name, transform=transform, times=times, divided_by=divided_by)
    find_column(rest.split("/")[0].split("*")[0].strip(), columns, label)
    raise TableError(
        f"{label}: {formula!r} is not a valid formula. Write COLUMN, COLUMN*NUMBER, COLUMN/NUMBER, 1 minus one "
        f"of these, or 1/COLUMN, such as {column_option(density='1-sparsity/100')}."
    )


def _factors(text: str) -> Iterable[tuple[str, tuple[float, float]]]:
    """The text as a column, and as a column times or divided by a number."""
    yield text, (1.0, 1.0)
    for sign in "*/":
        column, found, number = text.rpartition(sign)
        try:
            factor = parse_number(number)
        except ValueError:
            continue
        if found and np.isfinite(factor) and factor > 0:
            yield column.strip(), (factor, 1.0) if sign == "*" else (1.0, factor)


def _depth_from(frame: pd.DataFrame, column: str, label: str) -> tuple[pd.DataFrame, Finding]:
    """Depths from the numbers in names such as resnet20, whose other parts become the family."""
    name = find_column(column, frame.columns, label)
    own = {normalized("depth"), *map(normalized, synonyms("depth", Metric.ERROR)[0])}
    given = next((c for c in frame.columns if normalized(c) in own and not is_empty(frame[c])), None)
    if given is not None:
        raise TableError(f"{label}: column {given} gives the depth already; leave --depth-from out.")
    texts = frame[name].astype(object).where(frame[name].notna(), "").astype(str).str.strip()
    split = split_depths(texts.unique())
    without = next((text for text in texts.unique() if text not in split), None)
    if without is not None:
        raise TableError(
            f"{label}: {without[:60]!r} in column {name} has no number, or several that differ, so the depth cannot be "
            "taken from it. Add a column depth."
        )
    frame = frame.drop(columns=[c for c in frame.columns if normalized(c) in own])
    frame = frame.assign(
        **{name: texts.map(lambda text: split[text][0]), "depth": texts.map(lambda text: split[text][1])}
    )
    depths = tuple(sorted({depth for _, depth in split.values()}))
    return frame, findings.DepthsFromNames(column=name, depths=depths)


def split_depths(names: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Family and depth of each name: the depth is the only number that differs among otherwise equal names.

    Omits names without a number, with several numbers that differ, and with a number too long for a depth.
    """
    alike: dict[tuple[str, ...], dict[str, list[str]]] = defaultdict(dict)
    for name in names:
        parts = ["".join(part) for _, part in groupby(name, str.isdecimal)]
        alike[tuple("" if part.isdecimal() else part for part in parts)][name] = parts
    found: dict[str, tuple[str, int]] = {}
    for pattern, members in alike.items():
        numbers = [at for at, part in enumerate(pattern) if not part]
        varying = [at for at in numbers if len({parts[at] for parts in members.values()}) > 1] or numbers[:1]
        if len(varying) == 1:
            for name, parts in members.items():
                if len(parts[varying[0]]) > DEPTH_DIGITS:
                    continue
                before, after = "".join(parts[: varying[0]]), "".join(parts[varying[0] + 1 :])
                found[name] = (f"{before.rstrip('-_ .')}{after}", int(parts[varying[0]]))
    return found

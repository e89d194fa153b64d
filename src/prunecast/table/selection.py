"""Selects rows of a table by values, and finds dense networks that serve several methods."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from prunecast.errors import TableError
from prunecast.table import findings
from prunecast.table.values import Rows, as_numbers
from prunecast.text import did_you_mean, normalized, parse_number

MOST = 8
"""Values that a message lists."""


def matching(frame: pd.DataFrame, where: Mapping[str, object], label: str) -> Rows:
    """Which rows have all the given values; refuses unknown columns and values that no row has."""
    rows = np.ones(len(frame), dtype=np.bool_)
    for name, value in where.items():
        rows &= matches(frame, name, value, label)
        if not rows.any():
            column = frame[find_column(name, frame.columns, label)]
            raise TableError(f"{label}: no row has {name} = {value}; {name} is {distinct(column)}.")
    return rows


def matches(frame: pd.DataFrame, name: str, value: object, label: str) -> Rows:
    """Which rows have the value in the column."""
    return _equals(frame[find_column(name, frame.columns, label)], value)


UNPRUNED = {
    normalized(word) for word in ("", "dense", "none", "unpruned", "no pruning", "not pruned", "baseline")
}
"""Names for the method of a network that is not pruned."""


def without_method(column: "pd.Series[Any]", dense: Rows) -> Rows:
    """Which rows have no method, one whose name means no pruning, or one that pruned none of its networks."""
    labels, names = pd.factorize(column.astype(object))
    never = np.bincount(labels[labels >= 0], weights=~dense[labels >= 0], minlength=len(names)) == 0
    named = np.array([normalized(str(name)) in UNPRUNED for name in names], dtype=np.bool_)
    return np.asarray([*(named | never), True], dtype=np.bool_)[labels]


def selected(rows: Rows, where: Mapping[str, object]) -> findings.RowsSelected:
    """The finding for rows that match the given values."""
    values = tuple((name, str(value)) for name, value in where.items())
    return findings.RowsSelected(rows=int(rows.sum()), total=len(rows), where=values)


def distinct(column: "pd.Series[Any]") -> str:
    """The first few different values of a column as text."""
    values = [_shown(value) for value in column.unique()]
    return ", ".join(values[:MOST]) + (f" and {len(values) - MOST} more" if len(values) > MOST else "")


def _shown(value: object) -> str:
    if pd.isna(value) or value == "":  # type: ignore[call-overload]
        return "(empty)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def find_column(name: str, names: Iterable[str], label: str) -> str:
    """The column with this name, in any spelling; refuses unknown names."""
    columns = [str(column) for column in names]
    if name in columns:
        return name
    alike = [column for column in columns if normalized(column) == normalized(name)]
    if len(alike) != 1:
        guess = did_you_mean(name, columns)
        shown = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
        raise TableError(f"{label}: there is no column {name}.{guess} The columns are {shown}.")
    return alike[0]


def _equals(column: "pd.Series[Any]", value: object) -> Rows:
    """Equality as numbers if both are numbers, as text otherwise."""
    try:
        same: Rows = as_numbers(column) == parse_number(str(value))
    except ValueError:
        same = np.zeros(len(column), dtype=np.bool_)
    if getattr(column.dtype, "kind", "O") in "iuf":
        return same
    return same | (column.astype(str).str.strip() == str(value).strip()).to_numpy(dtype=np.bool_)

"""Rows chosen by the values of columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.errors import TableError
from prunecast.table.values import as_numbers
from prunecast.text import nearest, normalized, parse_number


def chosen(frame: pd.DataFrame, where: Mapping[str, object], label: str) -> npt.NDArray[np.bool_]:
    """Which rows equal every named value; a column that is not there, and no rows at all, are refused."""
    mask = np.ones(len(frame), dtype=np.bool_)
    for name, value in where.items():
        column = frame[_column(frame, name, label)]
        mask &= _equals(column, value)
        if not mask.any():
            raise TableError(f"{label}: no row has {name} = {value}; {name} is {listed(column)}")
    return mask


def listed(column: "pd.Series[Any]", most: int = 8) -> str:
    """The distinct values of a column in words, the first few of them."""
    values = [_shown(value) for value in column.unique()]
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def in_words(where: Mapping[str, object]) -> str:
    """The wanted values as a phrase."""
    return ", ".join(f"{column} = {value}" for column, value in where.items())


def _shown(value: object) -> str:
    if pd.isna(value) or value == "":  # type: ignore[call-overload]
        return "(empty)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _column(frame: pd.DataFrame, name: str, label: str) -> str:
    if name in frame.columns:
        return name
    alike = [str(column) for column in frame.columns if normalized(str(column)) == normalized(name)]
    if len(alike) != 1:
        columns = [str(column) for column in frame.columns]
        near = nearest(name, columns)
        guess = "" if near is None else f"did you mean {near}? "
        raise TableError(f"{label}: no column {name} to select by; {guess}there are: {', '.join(columns)}")
    return alike[0]


def _equals(column: "pd.Series[Any]", value: object) -> npt.NDArray[np.bool_]:
    """Equality as numbers where both are numbers, as text otherwise."""
    try:
        same: npt.NDArray[np.bool_] = as_numbers(column) == parse_number(str(value))
    except ValueError:
        same = np.zeros(len(column), dtype=np.bool_)
    if getattr(column.dtype, "kind", "O") in "iuf":
        return same
    return same | (column.astype(str).str.strip() == str(value).strip()).to_numpy(dtype=np.bool_)

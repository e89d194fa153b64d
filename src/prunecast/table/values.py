"""Columns turned into numbers, and each number checked against what the quantity can be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.rows import Rows
from prunecast.text import parse_number

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a quantity can be: strictly above `low`, or from it on; at most `high`; perhaps whole."""

    low: float
    high: float = np.inf
    includes_low: bool = False
    whole: bool = False

    def holds(self, values: Numbers) -> npt.NDArray[np.bool_]:
        """Which values are allowed; NaN and infinities never are."""
        above = values >= self.low if self.includes_low else values > self.low
        inside = above & (values <= self.high) & np.isfinite(values)
        return inside & (values == np.floor(values)) if self.whole else inside

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if np.isfinite(self.high):
            return f"{kind} in {'[' if self.includes_low else '('}{self.low:g}, {self.high:g}]"
        return f"{kind} {'of at least' if self.includes_low else 'above'} {self.low:g}"


SHARE = Limit(low=0, high=1)
POSITIVE = Limit(low=0)
COUNT = Limit(low=0, includes_low=True, whole=True)


def as_numbers(column: "pd.Series[Any]") -> Numbers:
    """The column as float64, fractions such as 1/4 worked out, with NaN for whatever is no number."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "bmMc":
        return np.full(len(column), np.nan)
    if kind == "O" and isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    numbers = pd.to_numeric(column, errors="coerce")
    values = np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "O":
        unread = np.isnan(values)
        values[unread] = [_fraction(cell) for cell in column[unread]]
    return values


def _fraction(cell: object) -> float:
    """What a cell such as 1/4 says, as widths are usually written."""
    try:
        return parse_number(cell) if isinstance(cell, str) and "/" in cell else np.nan
    except ValueError:
        return np.nan


def checked(
    column: "pd.Series[Any]", name: str, limit: Limit, rows: Rows, complement: bool, word: str = ""
) -> Numbers:
    """The column's numbers (or one minus them), refused where one is missing or outside the limit.

    `word` is what the quantity is called where that is not its canonical name.
    """
    given = as_numbers(column)
    values = 1 - given if complement else given
    bad = ~limit.holds(values)
    if bad.any():
        row = int(np.argmax(bad))
        rows.refuse(name, bad, _problem(column.iloc[row], given, row, word or name, limit, complement))
    return values


def _readable(raw: str) -> str:
    """What to do about a cell that cannot be read as a number."""
    if raw.rstrip().endswith("%"):
        return "drop the % and divide by 100"
    return "write decimals with a point" if raw.count(",") == 1 else "correct it, or leave the row out"


def _problem(raw: object, given: Numbers, row: int, name: str, limit: Limit, complement: bool) -> str:
    must = f"{name} must be {limit}"
    if np.isnan(given[row]):
        if pd.isna(raw) or raw == "":  # type: ignore[call-overload]
            return f"the value is missing, and {must}; give it, or leave the row out"
        return f"{raw!r} is not a number, and {must}; {_readable(str(raw))}"
    seen = f"{given[row]:g} gives {name} {1 - given[row]:g}" if complement else f"{given[row]:g}"
    percent = limit.high == 1 and np.mean((given > 1) & (given <= 100)) > 0.25
    remedy = "; these look like percentages: divide by 100" if percent else ""
    if name.endswith(("error", "loss")) and given[row] == (1 if complement else 0):
        word = "loss" if name.endswith("loss") else "error"
        remedy = f"; a law of relative deviations has no use for a row without any {word}: leave it out"
    return f"{seen} where {must}{remedy}"

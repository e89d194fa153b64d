"""Numbers of a column: how they are read, and which values a quantity can have."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import CONFIGURATION, COSTS, COUNTS, Binding, Transform
from prunecast.table.options import column_option
from prunecast.table.parse import Places
from prunecast.text import cell_number, normalized, split_spread

Numbers = npt.NDArray[np.float64]
Rows = npt.NDArray[np.bool_]
TINY = 1e-12
"""Smaller values are practically zero; fitting them overflows."""
LARGEST = 1e15
"""Larger whole numbers are not exact as float64."""

LONGEST = 100
"""No number has more characters."""
SHOWN = 60
"""How many characters of a cell are shown."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The values that a quantity can have: above `low` (or from it on) up to `high`, perhaps whole numbers only."""

    low: float
    high: float = np.inf
    includes_low: bool = False
    whole: bool = False

    def allows(self, values: Numbers) -> Rows:
        """Which values are allowed; NaN and infinities never are."""
        above = values >= self.low if self.includes_low else (values > self.low) & (values >= TINY)
        inside = above & (values <= min(self.high, LARGEST)) & np.isfinite(values)
        return inside & (values == np.floor(values)) if self.whole else inside

    def __str__(self) -> str:
        kind = "a whole number, " if self.whole else ""
        low = f"{kind}{self.low:g} or more" if self.includes_low else f"{kind}greater than {self.low:g}"
        return low + (f" and at most {self.high:g}" if np.isfinite(self.high) else "")


SHARE = Limit(low=0, high=1)
POSITIVE = Limit(low=0)
COUNT = Limit(low=0, includes_low=True, whole=True)


def as_numbers(column: "pd.Series[Any]") -> Numbers:
    """The column as float64; NaN for what is not a number.

    Fractions, percentages, counts and ratios such as 1/4, 25%, 125M and 10x are numbers; so are those with a spread or
    markup, such as 93.4 ± 0.2 and \\textbf{93.4}.
    """
    kind = getattr(column.dtype, "kind", "O")
    if kind in "bmMc":
        return np.full(len(column), np.nan)
    if kind == "O" and isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    try:
        numbers = pd.to_numeric(column, errors="coerce")
    except OverflowError:
        numbers = pd.to_numeric(column.map(_bounded), errors="coerce")
    values = np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "O":
        unread = np.isnan(values)
        values[unread] = [_number(cell) for cell in column[unread]]
    return values


def _bounded(cell: object) -> object:
    """The cell, or an infinity for a whole number that is too large for a float."""
    if isinstance(cell, int) and abs(cell) > LARGEST:
        return np.inf if cell > 0 else -np.inf
    return cell


def _number(cell: object) -> float:
    """A cell of text as a number; NaN if it is none."""
    if not isinstance(cell, str) or len(cell) > LONGEST:
        return np.nan
    try:
        return cell_number(cell)
    except ValueError:
        return np.nan


def has_spreads(column: "pd.Series[Any]") -> bool:
    """Whether some cells have a spread after the value, which is not read."""
    if getattr(column.dtype, "kind", "O") != "O":
        return False
    return any(isinstance(cell, str) and split_spread(cell)[1] for cell in column)


def checked(
    column: "pd.Series[Any]",
    name: str,
    limit: Limit,
    places: Places,
    *,
    binding: Binding | None = None,
    called: str = "",
    percent: str = "",
    instead: str = "",
) -> Numbers:
    """The column's numbers, converted by the binding; refuses missing numbers and those outside the limit.

    `called` is the quantity's name in messages, if it differs from the canonical one; `percent` is the option for
    percentages, `instead` the one for a metric that is never zero.
    """
    given = as_numbers(column)
    binding = binding or Binding(column=places.heading(name))
    values = binding.of(given)
    bad = ~limit.allows(values)
    if bad.any():
        row = int(np.argmax(bad))
        problem = _problem(
            Value(column.iloc[row], given[row], values[row]), binding, called or name, limit, percent, instead
        )
        places.refuse(bad, problem)
    return values


class Value(NamedTuple):
    """One value of a column: as it is in the file, as a number, and converted."""

    raw: object
    given: float
    converted: float


def _problem(value: Value, binding: Binding, called: str, limit: Limit, percent: str, instead: str) -> str:
    """What is wrong with one value, and what to do about it."""
    heading, given = binding.column, value.given
    plain = binding.computed or normalized(heading) == normalized(called)
    known = heading if plain else f"{heading} ({called})"
    if np.isnan(given) and (pd.isna(value.raw) or value.raw == ""):  # type: ignore[call-overload]
        return f"{known} is missing. Add the value, or remove the row."
    if np.isnan(given):
        return not_a_number(known, value.raw)
    if binding.transform is Transform.INVERSE and given < 1:
        return _not_a_ratio(heading, given)
    seen = f"{known} is {given:g}" + (f", so {called} is {value.converted:g}" if binding.computed else "")
    metric = called.removeprefix("unpruned_")
    if metric not in CANONICAL_SIZES and value.converted == 0:
        other = f", or fit another metric with {instead}" if instead else ""
        return f"{seen}. Rows with zero {metric.replace('_', ' ')} cannot be fitted; remove them{other}."
    if 0 < value.converted < TINY or min(value.converted, limit.high) > LARGEST:
        which = f"smaller than {TINY:g}" if value.converted < TINY else f"larger than {LARGEST:g}"
        return f"{seen}, but it must not be {which}. Correct it, or remove the row."
    text = f"{seen}, but it must be {limit}."
    if limit.high == 1 and 1 < given <= 100:
        before = "1-" if binding.transform is Transform.COMPLEMENT else ""
        option = percent or column_option(**{called: f"{before}{heading}/100"})
        return f"{text} If it is a percentage, divide by 100 with {option}."
    if binding.transform is Transform.COMPLEMENT and given == 1:
        return f"{text} If {heading} is the share of weights kept, use {column_option(**{called: heading})}."
    return text


CANONICAL_SIZES = ("density", *CONFIGURATION, "replicate", "level", "chance_error", *COUNTS, *COSTS)
"""Quantities other than the metric."""


def _not_a_ratio(heading: str, given: float) -> str:
    """A compression ratio below 1 can be the share kept or the share pruned."""
    return (
        f"{heading} is {given:g}, but as a compression ratio, weights before pruning divided by weights after, it must "
        f"be 1 or more. If it is the share of weights kept, use {column_option(density=heading)}. If it is the share "
        f"pruned, use {column_option(density=f'1-{heading}')}."
    )


def not_a_number(known: str, raw: object) -> str:
    """The message for a cell that is not a number."""
    return f"{known} is {_short(raw)}, which is not a number. {_unreadable(str(raw))}"


def _short(raw: object) -> str:
    """A cell, shortened for a message."""
    text = repr(raw)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _unreadable(raw: str) -> str:
    return "Write decimals with a point." if raw.count(",") == 1 else "Correct it, or remove the row."

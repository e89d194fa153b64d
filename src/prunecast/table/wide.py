"""Tables with one column per sparsity, depth or width, as papers print them, turned into one row per training run."""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pandas as pd

from prunecast.errors import TableError
from prunecast.metric import Metric
from prunecast.table import findings
from prunecast.table.columns import synonyms, with_meaning
from prunecast.table.options import melt_option
from prunecast.table.parse import Places
from prunecast.table.prepare import split_depths
from prunecast.table.values import as_numbers
from prunecast.text import normalized, without_number

SUGGESTED_FROM = 3
"""So many columns that differ only in a number are taken for one quantity without being asked."""
SHARES = {"density", "sparsity"}
KEPT = ("density", "kept", "remaining")
"""Words in the names of columns of densities."""


def melt(
    frame: pd.DataFrame, names: str, places: Places
) -> tuple[pd.DataFrame, Places, findings.ColumnsMelted]:
    """A row for each cell of the columns whose names differ only in a number; empty cells are left out.

    Args:
        frame: a table with one column per value of a quantity.
        names: two names for new columns, such as "sparsity,accuracy": of the number and of the cell.
        places: where the rows came from.

    Returns:
        The new table and its places, with what was done.
    """
    number, comma, value = (part.strip() for part in names.partition(","))
    if not (number and comma and value):
        raise TableError(
            f"{places.label}: {names!r} must be two names with a comma between them: what the numbers in the columns' "
            "names are, and what the cells hold, such as sparsity,accuracy."
        )
    numbers = numbered_columns(column for column in frame.columns if column not in (number, value))
    if len(numbers) < 2:
        raise TableError(
            f"{places.label}: no two columns have names that differ only in a number, such as 50% and 90%, so there is "
            f"nothing to melt; the columns are {', '.join(frame.columns[:20])}."
        )
    percent = normalized(number) in SHARES and (max(numbers.values()) > 1 or "%" in next(iter(numbers)))
    parts, lines = [], []
    for column, found in numbers.items():
        filled = (frame[column].notna() & (frame[column].astype(str).str.strip() != "")).to_numpy()
        rows = frame[filled].drop(columns=list(numbers))
        rows[number], rows[value] = found / 100 if percent else found, frame[column][filled]
        parts.append(rows)
        lines.append(places.keep(filled).numbers)
    finding = findings.ColumnsMelted(columns=tuple(numbers), number=number, value=value)
    melted = pd.concat(parts, ignore_index=True)
    return melted, places.at(np.concatenate(lines)), finding


def numbered_columns(columns: Iterable[str]) -> dict[str, float]:
    """The largest group of columns whose names are the same but for one number, and these numbers."""
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for column in columns:
        found = without_number(column)
        if found is not None:
            groups[found[0]][column] = found[1]
    return max(groups.values(), key=len, default={})


def melt_suggestion(frame: pd.DataFrame, metric: Metric) -> str:
    """The option that makes rows of columns that differ only in a number; "" if there are too few of them."""
    known = with_meaning(list(frame.columns), metric)
    numbers = numbered_columns(column for column in frame.columns if column not in known)
    if len(numbers) < SUGGESTED_FROM:
        return ""
    first, last = (pick(numbers, key=numbers.__getitem__) for pick in (min, max))
    share = next((column for column in known if normalized(column) in SHARES), None)
    if share is not None:
        number = "depth" if all(value == round(value) for value in numbers.values()) else "width"
        least, most = (as_numbers(frame[first])[as_numbers(frame[share]).argsort()[end]] for end in (0, -1))
        rises = least < most if normalized(share) == "sparsity" else least > most
    else:
        number = _share_in(normalized(first))
        least, most = (np.nanmean([*as_numbers(frame[column]), np.nan]) for column in (first, last))
        rises = least > most if number == "density" else least < most
    value = metric.column if metric is not Metric.ERROR else "error" if rises else "accuracy"
    option = melt_option(f"{number},{value}", "" if number == "depth" else _depths(frame, known))
    return f"If columns {first} to {last} are one {number} each, use {option}."


def _share_in(name: str) -> str:
    """Which share the number in the name of a column probably is."""
    if "compression" in name or name.endswith(("x", "×")):
        return "compression"
    return "density" if any(word in name for word in KEPT) else "sparsity"


def _depths(frame: pd.DataFrame, known: list[str]) -> str:
    """The column of names that differ only in their depths; "" if there is none."""
    families = {"family", *map(normalized, synonyms("family", Metric.ERROR)[0])}
    for column in (own for own in known if normalized(own) in families):
        names = list(frame[column].astype(str).unique())
        split = split_depths(names)
        if len(names) == len(split) > 1 and len({family for family, _ in split.values()}) == 1:
            return column
    return ""

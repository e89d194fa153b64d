"""The canonical frame: names and numbers checked, absent columns filled in, unpruned errors worked out."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import CANONICAL, CONFIGURATION, NAMES, Binding
from prunecast.table.errors import TableError
from prunecast.table.groups import codes, levels, refuse_duplicates, unpruned
from prunecast.table.rows import Rows
from prunecast.table.values import COUNT, POSITIVE, SHARE, Limit, Numbers, as_numbers, checked
from prunecast.table.where import listed


def canonical_frame(
    raw: pd.DataFrame, rows: Rows, bound: Mapping[str, Binding], metric: str
) -> tuple[pd.DataFrame, list[str]]:
    """Check a renamed frame and complete it; returns it with notes of what was assumed."""
    value = SHARE if metric == "error" else POSITIVE

    def number(name: str, limit: Limit) -> Numbers:
        return checked(raw[name], name, limit, rows, bound[name].complement)

    names = {name: _single(raw, name, rows) for name in NAMES}
    density, error = number("density", SHARE), number("error", value)
    columns: dict[str, npt.NDArray[np.generic]] = {}
    notes = []
    for name in CONFIGURATION:
        columns[name] = _whole(number(name, POSITIVE)) if name in bound else np.ones(len(raw), dtype=np.int64)
        if name not in bound:
            notes.append(f"Column {name} is absent and taken to be the same, 1, everywhere.")
    columns["width"] = columns["width"].astype(np.float64)
    columns["replicate"], assumed = _replicate(raw, rows, bound)
    notes += assumed
    configuration = codes([columns[name] for name in CONFIGURATION])
    chain = codes([configuration, columns["replicate"]])
    if "level" in bound:
        columns["level"] = number("level", COUNT).astype(np.int64)
        refuse_duplicates(chain, columns["level"], "level", rows)
    else:
        refuse_duplicates(chain, density, "density", rows)
        columns["level"] = levels(configuration, density)
        notes.append("Column level is absent and worked out from the densities.")
    given = _given(raw, rows, bound, value) if "unpruned_error" in bound else None
    columns |= {"density": density, "error": error}
    columns["unpruned_error"] = unpruned(configuration, chain, density, error, given)
    _refuse_unknown_unpruned(columns, rows)
    extra = raw.drop(columns=[name for name in CANONICAL if name in raw.columns])
    frame = pd.DataFrame({**columns, **{name: extra[name] for name in extra.columns}}, index=raw.index)
    for position, name in enumerate(NAMES):
        frame.insert(position, name, names[name])
    return frame, notes


def _single(raw: pd.DataFrame, name: str, rows: Rows) -> str:
    """The one value of a name column, "" where it is absent or empty; several are refused."""
    if name not in raw.columns:
        return ""
    values = sorted({"" if pd.isna(value) else str(value).strip() for value in raw[name].unique()})
    if len(values) > 1:
        first = next(value for value in values if value)
        raise TableError(
            f"{rows.label}: column {rows.heading(name)} holds several values ({listed(pd.Series(values))}),"
            f" and a law belongs to one {name}; name one: --where {name}={first},"
            f' or where={{"{name}": "{first}"}} in Python'
        )
    return values[0]


def _whole(values: Numbers) -> npt.NDArray[np.generic]:
    """Whole numbers as int64, others as they are."""
    return values.astype(np.int64) if (values == np.floor(values)).all() else values


def _replicate(
    raw: pd.DataFrame, rows: Rows, bound: Mapping[str, Binding]
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Replicate numbers; labels that are no whole numbers are numbered from 1 in their order."""
    if "replicate" not in bound:
        return np.ones(len(raw), dtype=np.int64), ["Column replicate is absent and taken to be 1."]
    column = raw["replicate"]
    missing = column.isna().to_numpy()
    if missing.any():
        rows.refuse("replicate", missing, "the value is missing; number the replicates from 1")
    values = as_numbers(column)
    if (values == np.floor(values)).all() and (np.abs(values) < 2**53).all():
        return values.astype(np.int64), []
    labels, distinct = pd.factorize(column.astype(str), sort=True)
    heading = rows.heading("replicate")
    return labels.astype(np.int64) + 1, [
        f"The {len(distinct)} labels of column {heading} are numbered from 1."
    ]


def _given(raw: pd.DataFrame, rows: Rows, bound: Mapping[str, Binding], limit: Limit) -> Numbers:
    """The stated unpruned errors, NaN where a row states none."""
    column = raw["unpruned_error"]
    stated = column.notna().to_numpy()
    values = np.full(len(raw), np.nan)
    complement = bound["unpruned_error"].complement
    values[stated] = checked(column[stated], "unpruned_error", limit, rows.keep(stated), complement)
    return values


def _refuse_unknown_unpruned(columns: Mapping[str, npt.NDArray[np.generic]], rows: Rows) -> None:
    unknown = np.isnan(columns["unpruned_error"].astype(np.float64))
    if not unknown.any():
        return
    row = int(np.argmax(unknown))
    which = ", ".join(f"{name} {columns[name][row]:g}" for name in CONFIGURATION)
    raise TableError(
        f"{rows.label}, {rows.place(row)}: the configuration {which} has no unpruned error;"
        " add its row with density 1, or a column unpruned_error"
    )

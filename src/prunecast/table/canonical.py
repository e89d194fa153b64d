"""The canonical frame: names and numbers checked, absent columns filled in, unpruned errors worked out."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import CONFIGURATION, NAMES, named
from prunecast.table.errors import TableError
from prunecast.table.groups import Codes, codes, levels, refuse_duplicates, refuse_varying, unpruned
from prunecast.table.raw import Raw
from prunecast.table.rows import Rows
from prunecast.table.values import COUNT, POSITIVE, SHARE, Numbers, as_numbers, checked
from prunecast.table.where import listed

Column = npt.NDArray[np.generic]


def canonical_frame(raw: Raw) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Check a renamed frame and complete it; returns it with sentences on what was assumed."""
    limit = SHARE if raw.metric == "error" else POSITIVE
    names = {name: _single(raw.frame, name, raw.rows) for name in NAMES}
    density, error = raw.number("density", SHARE), raw.number("error", limit)
    columns: dict[str, Column] = {name: _positive(raw, name) for name in CONFIGURATION}
    columns["width"] = columns["width"].astype(np.float64)
    columns["replicate"], numbering = _replicate(raw)
    configuration = codes([columns[name] for name in CONFIGURATION])
    chain = codes([configuration, columns["replicate"]])
    columns["level"] = _level(raw, configuration, chain, density)
    columns |= {"density": density, "error": error}
    stated = _stated(raw, configuration, chain, density == 1)
    columns["unpruned_error"] = unpruned(configuration, chain, density, error, stated)
    _refuse_unknown_unpruned(columns, raw.rows, raw.metric)
    notes = (*raw.notes, *_absences(raw), *numbering, *_set_aside(raw, stated, columns["unpruned_error"]))
    return _joined(names, columns, raw.frame), notes


def _joined(names: Mapping[str, str], columns: Mapping[str, Column], raw: pd.DataFrame) -> pd.DataFrame:
    """The canonical columns, then the extra ones."""
    canonical = {*names, *columns}
    extra = {name: raw[name].array for name in raw.columns if name not in canonical}
    frame = pd.DataFrame({**columns, **extra})
    for position, (name, value) in enumerate(names.items()):
        frame.insert(position, name, value)
    return frame


def _single(frame: pd.DataFrame, name: str, rows: Rows) -> str:
    """The one value of a name column, "" where it is absent or empty; several are refused."""
    if name not in frame.columns:
        return ""
    values = sorted({"" if pd.isna(value) else str(value).strip() for value in frame[name].unique()})
    if len(values) > 1:
        first = next(value for value in values if value)
        raise TableError(
            f"{rows.label}: column {rows.heading(name)} holds several values ({listed(pd.Series(values))}),"
            f" and a law belongs to one {name}; name one: --where {name}={first},"
            f' or where={{"{name}": "{first}"}} in Python'
        )
    return values[0]


def _positive(raw: Raw, name: str) -> Column:
    """A positive column, int64 where all values are whole; 1 everywhere where it is absent."""
    if not raw.has(name):
        return np.ones(len(raw.frame), dtype=np.int64)
    values = raw.number(name, POSITIVE)
    return values.astype(np.int64) if (values == np.floor(values)).all() else values


def _replicate(raw: Raw) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """Replicate numbers; labels that are no whole numbers are numbered from 1 in their order."""
    if not raw.has("replicate"):
        return np.ones(len(raw.frame), dtype=np.int64), ()
    column = raw.frame["replicate"]
    missing = column.isna().to_numpy()
    if missing.any():
        raw.rows.refuse("replicate", missing, "the value is missing; number the replicates from 1")
    values = as_numbers(column)
    if (values == np.floor(values)).all() and (np.abs(values) < 2**53).all():
        return values.astype(np.int64), ()
    labels, distinct = pd.factorize(column.astype(str), sort=True)
    heading = raw.rows.heading("replicate")
    return labels.astype(np.int64) + 1, (
        f"The {len(distinct)} labels of column {heading} are numbered from 1.",
    )


def _level(raw: Raw, configuration: Codes, chain: Codes, density: Numbers) -> Codes:
    """The given levels, else those the densities imply; one network twice is refused."""
    if not raw.has("level"):
        refuse_duplicates(chain, density, "density", raw.rows)
        return levels(configuration, chain, density)
    given = raw.number("level", COUNT).astype(np.int64)
    refuse_duplicates(chain, given, "level", raw.rows)
    return given


def _stated(raw: Raw, configuration: Codes, chain: Codes, dense: npt.NDArray[np.bool_]) -> Numbers:
    """The unpruned errors the source states, NaN where it states none."""
    values = np.full(len(raw.frame), np.nan)
    if not raw.has("unpruned_error"):
        return values
    column = raw.frame["unpruned_error"]
    there = column.notna().to_numpy()
    limit = SHARE if raw.metric == "error" else POSITIVE
    complement, word = raw.bound["unpruned_error"].complement, named("unpruned_error", raw.metric)
    values[there] = checked(column[there], "unpruned_error", limit, raw.rows.keep(there), complement, word)
    measured = np.bincount(configuration, weights=dense) > 0
    refuse_varying(chain, values, there & ~measured[configuration], raw.rows)
    return values


def _refuse_unknown_unpruned(columns: Mapping[str, Column], rows: Rows, metric: str) -> None:
    unknown = np.isnan(columns["unpruned_error"].astype(np.float64))
    if not unknown.any():
        return
    row = int(np.argmax(unknown))
    which = ", ".join(f"{name} {columns[name][row]:g}" for name in CONFIGURATION)
    raise TableError(
        f"{rows.label}, {rows.place(row)}: the configuration {which} has no unpruned {named('error', metric)};"
        f" add its row with density 1, or a column {named('unpruned_error', metric)}"
    )


def _absences(raw: Raw) -> list[str]:
    """What is assumed for each absent column."""
    notes = [
        f"Column {name} is absent and taken to be 1 everywhere."
        for name in (*CONFIGURATION, "replicate")
        if not raw.has(name)
    ]
    return (
        notes if raw.has("level") else [*notes, "Column level is absent and worked out from the densities."]
    )


def _set_aside(raw: Raw, stated: Numbers, used: Column) -> list[str]:
    """A note where rows with density 1 say otherwise than the stated unpruned errors."""
    differs = ~np.isnan(stated) & ~np.isclose(stated, used.astype(np.float64), rtol=1e-9, atol=0)
    if not differs.any():
        return []
    heading = raw.rows.heading("unpruned_error")
    return [
        f"Unpruned errors are means over replicates, which column {heading} is not on {differs.sum():,} rows."
    ]

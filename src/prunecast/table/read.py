"""From a file, a DataFrame or a shipped table's name to a checked table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from prunecast import tables
from prunecast.table.canonical import canonical_frame
from prunecast.table.chance import chance_error
from prunecast.table.columns import METRICS, Binding, bind
from prunecast.table.digest import digest
from prunecast.table.errors import TableError
from prunecast.table.files import read_file
from prunecast.table.frame import Table
from prunecast.table.rows import Rows
from prunecast.table.where import chosen


def read(
    source: str | Path | pd.DataFrame,
    *,
    metric: str = "error",
    chance: float | None = None,
    where: Mapping[str, object] | None = None,
) -> Table:
    """Read and check a table of pruning results.

    `source` is a CSV, TSV or Parquet file, a DataFrame, or the name of a shipped table where no such
    file exists. `where` keeps the rows whose columns equal the given values, before anything is checked.
    """
    if metric not in METRICS:
        raise TableError(f"no metric is called {metric!r}; a table holds {' or '.join(METRICS)}")
    raw, rows, name = _open(source)
    if raw.empty:
        raise TableError(f"{rows.label} has no rows; a table needs at least one")
    bound = bind(list(raw.columns), metric, rows.label)
    raw, notes = _rename(raw, bound)
    if where:
        mask = chosen(raw, _canonical_keys(where, bound, rows.label), rows.label)
        notes.append(f"{int(mask.sum()):,} of {len(raw):,} rows are read: {_words(where)}.")
        raw, rows = raw[mask], rows.keep(mask)
    rows = Rows(label=rows.label, unit=rows.unit, places=rows.places, headings=_headings(bound))
    frame, more = canonical_frame(raw.reset_index(drop=True), rows, bound, metric)
    guess, reason = chance_error(frame, metric, chance, rows)
    return Table(
        frame=frame,
        metric=metric,
        source=name,
        digest=digest(frame, metric),
        chance=guess,
        notes=(*notes, *more, *reason),
    )


def _open(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, Rows, str]:
    """The columns as they stand, the places of the rows, and the source's name."""
    if isinstance(source, pd.DataFrame):
        frame, rows, name = (
            source,
            Rows(label="DataFrame", unit="row", places=np.arange(1, len(source) + 1)),
            "DataFrame",
        )
    else:
        path, name = _locate(source)
        frame, rows = read_file(path)
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise TableError(f"{rows.label}: two columns are called {repeated[0]}; rename one")
    return frame, rows, name


def _locate(source: str | Path) -> tuple[Path, str]:
    path = Path(source)
    try:
        there = path.exists()
    except (OSError, ValueError):
        there = False
    if there:
        return path, path.name
    if str(source) in tables.names():
        return tables.path(str(source)), str(source)
    shipped = ", ".join(tables.names())
    raise TableError(f"{source}: no such file, nor a table that ships with prunecast ({shipped})")


def _rename(raw: pd.DataFrame, bound: Mapping[str, Binding]) -> tuple[pd.DataFrame, list[str]]:
    """Canonical names for the bound columns; another column of such a name becomes `original_...`."""
    renamed, notes = {}, []
    taken = {binding.column: name for name, binding in bound.items()}
    for column in map(str, raw.columns):
        name = taken.get(column, f"original_{column}" if column in bound else column)
        if name == column:
            continue
        renamed[column] = name
        if column not in taken:
            notes.append(f"Column {column} is kept as {name}.")
        elif bound[name].complement:
            notes.append(f"Column {column} is read as {name} = 1 - {column}.")
        else:
            notes.append(f"Column {column} is read as {name}.")
    return raw.rename(columns=renamed), notes


def _canonical_keys(
    where: Mapping[str, object], bound: Mapping[str, Binding], label: str
) -> dict[str, object]:
    """Keys may be the file's own words, except for a quantity that is converted on reading."""
    own = {binding.column: name for name, binding in bound.items()}
    for name, binding in bound.items():
        if binding.complement and {name, binding.column} & set(where):
            raise TableError(
                f"{label}: rows cannot be selected by {binding.column}, which is converted to {name}"
            )
    return {own.get(key, key): value for key, value in where.items()}


def _headings(bound: Mapping[str, Binding]) -> dict[str, str]:
    return {name: binding.column for name, binding in bound.items()}


def _words(where: Mapping[str, object]) -> str:
    return ", ".join(f"{column} = {value}" for column, value in where.items())

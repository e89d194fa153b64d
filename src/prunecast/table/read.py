"""From a file, a DataFrame or a shipped table's name to a checked table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from prunecast import tables
from prunecast.table.canonical import canonical_frame
from prunecast.table.chance import chance_error
from prunecast.table.columns import METRICS, bind
from prunecast.table.digest import digest
from prunecast.table.errors import TableError
from prunecast.table.files import read_file
from prunecast.table.frame import Table
from prunecast.table.raw import renamed
from prunecast.table.rows import Rows
from prunecast.text import nearest


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
    columns, rows, name = _open(source)
    if columns.empty:
        raise TableError(f"{rows.label} has no rows; a table needs at least one")
    numeric = [name for name in columns.columns if pd.api.types.is_numeric_dtype(columns[name])]
    bound = bind(list(columns.columns), metric, rows.label, numeric)
    raw = renamed(columns, rows, bound, metric).where(where or {})
    frame, notes = canonical_frame(raw)
    guess, reason = chance_error(frame, metric, chance, raw.rows)
    return Table(
        frame=frame,
        metric=metric,
        source=name,
        digest=digest(frame, metric),
        chance=guess,
        notes=(*notes, *reason),
        columns=frozenset(bound) | ({"weights", "parameters", "nonzero"} & set(frame.columns)),
    )


def _open(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, Rows, str]:
    """The columns as they stand, the places of the rows, and the source's name."""
    if isinstance(source, pd.DataFrame):
        name, frame = "DataFrame", source
        rows = Rows(label=name, unit="row", places=np.arange(1, len(source) + 1))
    else:
        path, name = _locate(source)
        frame, rows = read_file(path)
        # A table that ships is called by its name; where the package is installed tells a reader nothing.
        rows = replace(rows, label=name) if path.parent == tables.FOLDER else rows
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1).reset_index(drop=True)
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise TableError(f"{rows.label}: two columns are called {repeated[0]}; rename one")
    return frame, rows, name


def _locate(source: str | Path) -> tuple[Path, str]:
    """The file and its name; a shipped table's name counts only where no such file exists."""
    path = Path(source)
    if _exists(path):
        return path, path.name
    if tables.known(str(source)):
        return tables.path(str(source)), tables.resolve(str(source))
    shipped = (*tables.pairs(), *tables.names())
    near = nearest(str(source), shipped)
    guess = "" if near is None else f"did you mean {near}? there are: "
    raise TableError(
        f"{source}: no such file, nor a table that ships with prunecast ({guess}{', '.join(shipped)})"
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False

"""The file beside a table with the latencies of sizes that were timed without training."""

from pathlib import Path

import numpy as np
import pandas as pd

from prunecast.errors import TableError
from prunecast.table.columns import LATENCY, TIMED_WITH, other_latency
from prunecast.table.values import as_numbers

UNTRAINED = ("depth", "width", "density", "multiply_adds", "bytes")
"""Columns of such a file beside those of latencies and how they were timed."""


def untrained_path(table: Path) -> Path:
    """Where the latencies of untrained sizes are: timed.untrained.csv beside timed.csv."""
    return table.with_suffix(".untrained.csv")


def latency_column(runtime: str, batch: int | str) -> str:
    """The column of latencies in a runtime with a batch."""
    return f"{LATENCY}_{runtime}_{batch}"


def read_untrained(table: Path, timed_with: str) -> pd.DataFrame | None:
    """The untrained sizes that were timed as the table was; None where there is no such file."""
    path = untrained_path(table)
    if not timed_with or not path.is_file():
        return None
    again = f"delete it, or write both again with `prunecast time PLAN -o {table.name}`."
    try:
        frame = pd.read_csv(path)
    except (OSError, UnicodeDecodeError, ValueError) as failure:
        raise TableError(f"{path.name} beside {table.name} cannot be read ({failure}); {again}") from failure
    latencies = [name for name in map(str, frame.columns) if other_latency(name)]
    for name in (*UNTRAINED, TIMED_WITH, *(latencies or [f"{LATENCY}_RUNTIME_BATCH"])):
        if name not in frame.columns:
            raise TableError(f"{path.name} beside {table.name} has no column {name}; {again}")
    others = sorted(set(frame[TIMED_WITH].astype(str)) - {timed_with})
    if others:
        raise TableError(
            f"{path.name} was timed with {others[0]!r}, but {table.name} with {timed_with!r}; {again}"
        )
    frame = frame[[*UNTRAINED, *latencies]].apply(as_numbers)
    _check(frame, path.name, again)
    return frame


def _check(frame: pd.DataFrame, name: str, again: str) -> None:
    highest = {"density": 1.0}
    for column in map(str, frame.columns):
        values = frame[column].to_numpy()
        wrong = ~((values > 0) & (values <= highest.get(column, 1e30)))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise TableError(
                f"{name}, row {row + 2}: {column} is {values[row]:g}, which is no possible value; {again}"
            )

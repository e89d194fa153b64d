"""The error of guessing, from the caller, a column of the table, or the dataset's name."""

import pandas as pd

from prunecast.catalog import find_dataset
from prunecast.table.errors import TableError
from prunecast.table.rows import Rows
from prunecast.table.values import SHARE, checked


def chance_error(
    frame: pd.DataFrame, metric: str, given: float | None, rows: Rows
) -> tuple[float | None, tuple[str, ...]]:
    """Chance error and a note: the argument, else the column `chance_error`, else the known dataset's.

    It is 1 minus the largest class's share of the test set.
    """
    if given is not None and metric == "loss":
        raise TableError(f"{rows.label}: a chance error says nothing about losses; leave it out")
    if given is not None:
        if not 0 < given <= 1:
            raise TableError(f"{rows.label}: the chance error must lie in (0, 1], not {given:g}")
        return float(given), ()
    if metric == "loss":
        return None, ()
    if "chance_error" in frame.columns:
        values = checked(frame["chance_error"], "chance_error", SHARE, rows, complement=False)
        if (values != values[0]).any():
            rows.refuse("chance_error", values != values[0], f"differs from {values[0]:g} of the first row")
        return float(values[0]), ()
    dataset = str(frame["dataset"].iloc[0])
    facts = find_dataset(dataset)
    known = None if facts is None else facts.chance_error
    return known, () if known is None else (f"The chance error of {dataset} is taken to be {known:g}.",)

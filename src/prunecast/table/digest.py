"""The digest of a table: equal for the same measurements, whatever their formatting or order."""

import hashlib

import numpy as np
import pandas as pd

from prunecast.table.columns import CONFIGURATION, NAMES
from prunecast.table.values import as_numbers

MEASURED = (*CONFIGURATION, "replicate", "level", "density", "error", "unpruned_error")
COUNTS = ("parameters", "weights", "nonzero")


def digest(frame: pd.DataFrame, metric: str) -> str:
    """SHA-256 over the metric, the four names, and every number a law reads, rows in sorted order.

    Numbers enter as little-endian float64. Extra columns do not enter, except the counts of
    parameters, which some laws read.
    """
    columns = [*MEASURED, *(name for name in COUNTS if name in frame.columns)]
    values = [as_numbers(frame[name]) for name in columns]
    order = np.lexsort(values[::-1])
    total = hashlib.sha256(repr((metric, [str(frame[name].iloc[0]) for name in NAMES], columns)).encode())
    for column in values:
        total.update(column[order].astype("<f8").tobytes())
    return total.hexdigest()

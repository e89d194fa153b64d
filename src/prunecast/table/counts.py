"""Counts of weights checked against each other and against the densities, so that no unit is mistaken."""

from typing import NoReturn

import numpy as np
import pandas as pd

from prunecast.table.columns import COUNTS
from prunecast.table.options import column_option
from prunecast.table.parse import Places
from prunecast.table.values import Numbers, Rows, as_numbers

FEW = 1000
"""If all counts are smaller, they must be whole numbers, and densities must be possible with them."""
ROUNDED = 0.01
"""How much densities may differ from shares of a whole number of weights, where there are few, in the median."""
SAME = 1e-3
BETWEEN_UNITS = 500
"""Two counts of one network that differ by this factor or more have different units."""
FULL = 0.1
"""At this density or above, biases and normalisation are few compared with the weights."""
UNITS = {"thousands": 1_000, "millions": 1_000_000, "billions": 1_000_000_000}


def check_counts(frame: pd.DataFrame, density: Numbers, places: Places) -> None:
    """Refuse counts that are not whole numbers, that the densities exclude, or that contradict each other.

    Rows without a count are left alone.
    """
    counts = {name: as_numbers(frame[name]) for name in COUNTS if name in frame.columns}
    for name, values in counts.items():
        if (values >= FEW).any():
            continue
        partial = (values > 0) & (np.abs(values - np.round(values)) > 1e-6 * values)
        if partial.any():
            _refuse(partial, name, values, "but a count of weights is a whole number", places)
        if name == "weights":
            _check_few(values, density, places)
    _check_against_each_other(counts, density, places)


def _check_few(weights: Numbers, density: Numbers, places: Places) -> None:
    """The densities must be possible with so few weights."""
    left = weights * density
    _check(left < 1, "weights", weights, density, "fewer than one would be left", places)
    pruned = (density < 1) & (left > 0)
    off = np.where(pruned, np.abs(np.round(left) / left - 1), 0.0)
    if pruned.any() and np.median(off[pruned]) > ROUNDED:
        why = "no whole number of them is that share"
        _check(off > ROUNDED, "weights", weights, density, why, places)


def _check_against_each_other(counts: dict[str, Numbers], density: Numbers, places: Places) -> None:
    """All parameters are at least as many as the weights, and the weights that are left fit the density."""
    weights = counts.get("weights")
    if weights is None:
        return
    if "parameters" in counts:
        parameters = counts["parameters"]
        _compare(parameters < weights * (1 - SAME), "parameters", parameters, "weights", weights, places)
        _compare(parameters > weights * BETWEEN_UNITS, "weights", weights, "parameters", parameters, places)
    if "nonzero" in counts:
        nonzero, left = counts["nonzero"], weights * density
        full = (density >= FULL) & (nonzero > 0)
        _compare(full & (nonzero > left * BETWEEN_UNITS), "weights", weights, "nonzero", nonzero, places)
        _compare(full & (nonzero < left / BETWEEN_UNITS), "nonzero", nonzero, "weights", weights, places)


def _check(bad: Rows, name: str, values: Numbers, density: Numbers, why: str, places: Places) -> None:
    if bad.any():
        _refuse(bad, name, values, f"but density is {density[int(np.argmax(bad))]:g}, so {why}", places)


def _compare(bad: Rows, name: str, values: Numbers, other: str, others: Numbers, places: Places) -> None:
    if bad.any():
        value = others[int(np.argmax(bad))]
        reason = f"but {other} is {value:,.12g}, and both count the same network"
        _refuse(bad, name, values, reason, places, value)


def _refuse(
    bad: Rows, name: str, values: Numbers, why: str, places: Places, other: float | None = None
) -> NoReturn:
    """Name the column, and the option for the most likely unit."""
    value = values[int(np.argmax(bad))]
    unit = "millions"
    if other is not None and value > 0:
        unit = min(UNITS, key=lambda word: abs(np.log(other / value / UNITS[word])))
    option = column_option(**{name: f"{name}*{UNITS[unit]}"})
    text = f"{name} is {value:g}, {why}. If {name} is in {unit}, use {option}; otherwise correct or remove the column."
    places.refuse(bad, text)

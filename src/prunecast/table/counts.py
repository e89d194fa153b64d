"""Checks of counts and costs against each other and against the densities, which find wrong units."""

from typing import Any, NoReturn

import numpy as np
import pandas as pd

from prunecast.errors import TableError
from prunecast.table.columns import COSTS, COUNTS, LATENCY, TIMED_WITH
from prunecast.table.options import column_option, where_option
from prunecast.table.parse import Places
from prunecast.table.values import POSITIVE, Numbers, Rows, as_numbers, checked

FEW = 1000
"""If all counts are smaller, they must be whole numbers, and densities must be possible with them."""
ROUNDED = 0.01
"""With few weights, the median difference between densities and shares of whole numbers of weights may be this."""
SAME = 1e-3
BETWEEN_UNITS = 500
"""Two counts of one network that differ by this factor or more have different units."""
FULL = 0.1
"""From this density, biases and normalisation are few compared with the weights."""
LEAST_BYTES, MOST_BYTES = 1 / 16, 4 * BETWEEN_UNITS
"""The limits of bytes per weight in any file."""
SHOWN = 40
"""Characters of a text that a message shows."""
UNITS = {"thousands": 1_000, "millions": 1_000_000, "billions": 1_000_000_000}


def check_counts(frame: pd.DataFrame, density: Numbers, places: Places) -> None:
    """Refuse counts and costs that are impossible by themselves, by the densities, or beside each other.

    Rows without a count or cost are left alone.
    """
    counts = {name: as_numbers(frame[name]) for name in COUNTS if name in frame.columns}
    costs = _costs(frame, places)
    for name, values in counts.items():
        if (values >= FEW).any():
            continue
        partial = (values > 0) & (np.abs(values - np.round(values)) > 1e-6 * values)
        if partial.any():
            _refuse(partial, name, values, "but a count of weights is a whole number", places)
        if name == "weights":
            _check_few(values, density, places)
    _check_against_each_other(counts, density, places)
    if "weights" in counts:
        _check_costs(costs, counts["weights"], density, places)
    if LATENCY in costs and TIMED_WITH in frame.columns:
        _check_timing(frame[TIMED_WITH], costs[LATENCY], places)


def _costs(frame: pd.DataFrame, places: Places) -> dict[str, Numbers]:
    """The columns of costs, NaN for empty cells; refuses all but positive numbers."""
    found = {}
    for name in COSTS:
        if name in frame.columns:
            there = _filled(frame[name])
            values = np.full(len(frame), np.nan)
            values[there] = checked(frame[name][there], name, POSITIVE, places.keep(there))
            found[name] = values
    return found


def _filled(column: "pd.Series[Any]") -> Rows:
    """The rows with a value."""
    return np.asarray(column.notna() & (column.astype(str).str.strip() != ""), dtype=np.bool_)


def _check_costs(costs: dict[str, Numbers], weights: Numbers, density: Numbers, places: Places) -> None:
    """Check bytes and multiply-adds against the weights."""
    left = np.where(density >= FULL, weights * density, np.nan)
    needs = (
        ("remaining_parameters", 1 - SAME, 1),
        ("bytes", LEAST_BYTES, 4),
        ("multiply_adds", 1 / BETWEEN_UNITS, 100),
    )
    for name, least, usual in needs:
        if name in costs:
            _compare(costs[name] < left * least, name, costs[name], "weights", weights, places, usual)
    if "bytes" in costs:
        too_few = costs["bytes"] > weights * MOST_BYTES
        _compare(too_few, "weights", weights, "bytes", costs["bytes"], places)


def _check_timing(timed_with: "pd.Series[Any]", latency: Numbers, places: Places) -> None:
    """Check that all latencies were measured in the same way."""
    names = timed_with.astype(str)[np.isfinite(latency) & _filled(timed_with)]
    if names.nunique() > 1:
        first, other = (str(name) for name in pd.unique(names)[:2])
        select = f" with {where_option(TIMED_WITH, first)}" if first.isprintable() else ""
        raise TableError(
            f"{places.label}: {TIMED_WITH} is {first[:SHOWN]!r} in some rows and {other[:SHOWN]!r} in others, and "
            f"latencies that were measured differently cannot be compared. Select one{select}."
        )


def _check_few(weights: Numbers, density: Numbers, places: Places) -> None:
    """Check that the densities are possible with so few weights."""
    left = weights * density
    _check(left < 1, "weights", weights, density, "fewer than one would be left", places)
    pruned = (density < 1) & (left > 0)
    off = np.where(pruned, np.abs(np.round(left) / left - 1), 0.0)
    if pruned.any() and np.median(off[pruned]) > ROUNDED:
        why = "no whole number of them is that share"
        _check(off > ROUNDED, "weights", weights, density, why, places)


def _check_against_each_other(counts: dict[str, Numbers], density: Numbers, places: Places) -> None:
    """Check that there are at least as many parameters as weights, and that non-zero weights fit the density."""
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


def _compare(
    bad: Rows, name: str, values: Numbers, other: str, others: Numbers, places: Places, usual: float = 1.0
) -> None:
    """Refuse rows where two counts contradict each other; the first is usually `usual` times the other."""
    if bad.any():
        value = others[int(np.argmax(bad))]
        reason = f"but {other} is {value:,.12g}, and both count the same network"
        _refuse(bad, name, values, reason, places, value * usual)


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

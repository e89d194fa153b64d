"""Configurations and chains as integer codes, and what is worked out within them."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.errors import TableError
from prunecast.table.rows import Rows
from prunecast.table.values import Numbers

Codes = npt.NDArray[np.int64]
SAME_DENSITY = 1e-4


def codes(columns: Sequence[npt.NDArray[np.generic]]) -> Codes:
    """One integer per row, equal where all columns are equal, ordered as the columns' values are."""
    combined = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        part, values = pd.factorize(column, sort=True)
        combined = combined * len(values) + part
        combined = np.asarray(pd.factorize(combined, sort=True)[0], dtype=np.int64)
    return combined


def levels(configuration: Codes, chain: Codes, density: Numbers) -> Codes:
    """Pruning levels read off the densities of a configuration: 0 where the density is 1.

    Replicates share levels even where one of them lacks a level, so the order is taken over the whole
    configuration, and densities that differ by less than 0.01% count as one, unless a chain has both.
    """
    rounded = _ranks(configuration, density, SAME_DENSITY)
    merged = pd.Series(codes((chain, rounded))).duplicated().any()
    return _ranks(configuration, density, 0) if merged else rounded


def _ranks(configuration: Codes, density: Numbers, tolerance: float) -> Codes:
    order = np.lexsort((-density, configuration))
    group, kept = configuration[order], density[order]
    first = np.r_[True, group[1:] != group[:-1]]
    near = np.where(kept[:-1] == 1, 0, tolerance)  # a pruned network is never level 0, however little pruned
    drop = np.r_[True, kept[1:] < kept[:-1] * (1 - near)] | first
    step = np.cumsum(drop)
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = step - step[start] + (kept[start] < 1)
    return rank


def refuse_duplicates(chain: Codes, by: npt.NDArray[np.generic], name: str, rows: Rows) -> None:
    """One chain has one row for each level (or density, where levels are not given)."""
    key = pd.Series(codes((chain, by)))
    repeated = key.duplicated().to_numpy()
    if not repeated.any():
        return
    second = int(np.argmax(repeated))
    first = int(np.argmax((key == key.iloc[second]).to_numpy()))
    raise TableError(
        f"{rows.label}: {rows.place(first)} and {rows.place(second)} are the same network twice"
        f" (same depth, width, num_examples, replicate and {rows.heading(name)} {by[second]:g});"
        " drop one, or number replicates in a column replicate"
    )


def refuse_varying(chain: Codes, stated: Numbers, needed: npt.NDArray[np.bool_], rows: Rows) -> None:
    """A stated unpruned error must be the same on every row of a chain that needs it."""
    places = np.flatnonzero(needed)
    part, _ = pd.factorize(chain[places])
    first = places[~pd.Series(part).duplicated().to_numpy()][part] if len(places) else places
    bad = np.zeros(len(chain), dtype=np.bool_)
    bad[places] = stated[places] != stated[first]
    if bad.any():
        before = first[np.searchsorted(places, np.argmax(bad))]
        rows.refuse(
            "unpruned_error", bad, f"differs from {rows.place(before)} of the same chain; give one value"
        )


def unpruned(
    configuration: Codes, chain: Codes, density: Numbers, error: Numbers, stated: Numbers
) -> Numbers:
    """The unpruned error of each row's configuration; NaN where the table does not say.

    It is the mean error of the rows with density 1, else the mean over chains of the stated value.
    """
    size = int(configuration.max()) + 1
    dense = density == 1
    known = _mean(configuration[dense], error[dense], size)
    if np.isnan(known).any():
        there = ~np.isnan(stated)
        there[there] = ~pd.Series(chain[there]).duplicated().to_numpy()
        known = np.where(np.isnan(known), _mean(configuration[there], stated[there], size), known)
    return known[configuration]


def _mean(group: Codes, values: Numbers, size: int) -> Numbers:
    """Means by group, the same in every order of rows; exactly the value where all are equal."""
    order = np.lexsort((values, group))
    group, values = group[order], values[order]
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    count = np.bincount(group, minlength=size)
    total = np.bincount(group, weights=values, minlength=size)
    with np.errstate(invalid="ignore"):
        return np.where(low == high, low, total / count)

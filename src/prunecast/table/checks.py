"""From raw columns to the canonical frame: numbers checked, absent columns filled in, unpruned errors computed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.errors import TableError
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.table import findings
from prunecast.table.columns import CANONICAL, CONFIGURATION, NAMES, Binding, title
from prunecast.table.parse import Places
from prunecast.text import nearest, normalized, parse_number

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Rows = npt.NDArray[np.bool_]
Column = npt.NDArray[np.generic]
SAME_DENSITY = 1e-4
"""Densities of several replicates that differ by less than this share belong to one level."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """The values that a quantity can have: above `low` (or from it on) up to `high`, perhaps whole numbers only."""

    low: float
    high: float = np.inf
    includes_low: bool = False
    whole: bool = False

    def allows(self, values: Numbers) -> Rows:
        """Which values are allowed; NaN and infinities never are."""
        above = values >= self.low if self.includes_low else values > self.low
        inside = above & (values <= self.high) & np.isfinite(values)
        return inside & (values == np.floor(values)) if self.whole else inside

    def __str__(self) -> str:
        kind = "a whole number, " if self.whole else ""
        low = f"{kind}{self.low:g} or more" if self.includes_low else f"{kind}greater than {self.low:g}"
        return low + (f" and at most {self.high:g}" if np.isfinite(self.high) else "")


SHARE = Limit(low=0, high=1)
POSITIVE = Limit(low=0)
COUNT = Limit(low=0, includes_low=True, whole=True)


def as_numbers(column: "pd.Series[Any]") -> Numbers:
    """The column as float64, fractions such as 1/4 included, with NaN for everything that is not a number."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "bmMc":
        return np.full(len(column), np.nan)
    if kind == "O" and isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    numbers = pd.to_numeric(column, errors="coerce")
    values = np.array(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "O":
        unread = np.isnan(values)
        values[unread] = [_fraction(cell) for cell in column[unread]]
    return values


def _fraction(cell: object) -> float:
    try:
        return parse_number(cell) if isinstance(cell, str) and "/" in cell else np.nan
    except ValueError:
        return np.nan


def checked(
    column: "pd.Series[Any]",
    name: str,
    limit: Limit,
    places: Places,
    *,
    complement: bool = False,
    called: str = "",
) -> Numbers:
    """The column's numbers (or one minus them), refused if one is missing or outside the limit.

    `called` is the quantity's name for people, where it differs from the canonical one.
    """
    given = as_numbers(column)
    values = 1 - given if complement else given
    bad = ~limit.allows(values)
    if bad.any():
        row = int(np.argmax(bad))
        heading, called = places.heading(name), called or name
        known = (
            heading if complement or normalized(heading) == normalized(called) else f"{heading} ({called})"
        )
        problem = _problem(column.iloc[row], given, row, known, called, limit, complement)
        places.refuse(bad, problem)
    return values


def _problem(
    raw: object, given: Numbers, row: int, heading: str, called: str, limit: Limit, complement: bool
) -> str:
    """What is wrong with one value, and what to do about it."""
    value = given[row]
    if np.isnan(value) and (pd.isna(raw) or raw == ""):  # type: ignore[call-overload]
        return f"{heading} is missing. Add the value, or remove the row."
    if np.isnan(value):
        return f"{heading} is {raw!r}, which is not a number. {_unreadable(str(raw))}"
    seen = f"{heading} is {value:g}" + (f", so {called} is {1 - value:g}" if complement else "")
    metric = next((word for word in ("loss", "error") if called.endswith(word)), "")
    if metric and value == (1 if complement else 0):
        return f"{seen}. Rows with zero {metric} cannot be fitted; remove them."
    percent = limit.high == 1 and 1 < value <= 100
    return f"{seen}, but it must be {limit}." + (" If it is a percentage, divide by 100." if percent else "")


def _unreadable(raw: str) -> str:
    if raw.rstrip().endswith("%"):
        return "Remove the % and divide by 100."
    return "Write decimals with a point." if raw.count(",") == 1 else "Correct it, or remove the row."


def matching(frame: pd.DataFrame, where: Mapping[str, object], label: str) -> Rows:
    """Which rows have all the given values; an unknown column and values that no row has are refused."""
    rows = np.ones(len(frame), dtype=np.bool_)
    for name, value in where.items():
        column = frame[_column(frame, name, label)]
        rows &= _equals(column, value)
        if not rows.any():
            raise TableError(f"{label}: no row has {name} = {value}; {name} is {distinct(column)}.")
    return rows


def selected(rows: Rows, where: Mapping[str, object]) -> findings.RowsSelected:
    """The finding for rows that match the given values."""
    values = tuple((name, str(value)) for name, value in where.items())
    return findings.RowsSelected(rows=int(rows.sum()), total=len(rows), where=values)


def distinct(column: "pd.Series[Any]", most: int = 8) -> str:
    """The first few different values of a column as text."""
    values = [_shown(value) for value in column.unique()]
    return ", ".join(values[:most]) + (f" and {len(values) - most} more" if len(values) > most else "")


def _shown(value: object) -> str:
    if pd.isna(value) or value == "":  # type: ignore[call-overload]
        return "(empty)"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _column(frame: pd.DataFrame, name: str, label: str) -> str:
    columns = [str(column) for column in frame.columns]
    if name in columns:
        return name
    alike = [column for column in columns if normalized(column) == normalized(name)]
    if len(alike) != 1:
        near = nearest(name, columns)
        guess = "" if near is None else f" Did you mean {near}?"
        raise TableError(f"{label}: there is no column {name}.{guess} The columns are {', '.join(columns)}.")
    return alike[0]


def _equals(column: "pd.Series[Any]", value: object) -> Rows:
    """Equality as numbers if both are numbers, as text otherwise."""
    try:
        same: Rows = as_numbers(column) == parse_number(str(value))
    except ValueError:
        same = np.zeros(len(column), dtype=np.bool_)
    if getattr(column.dtype, "kind", "O") in "iuf":
        return same
    return same | (column.astype(str).str.strip() == str(value).strip()).to_numpy(dtype=np.bool_)


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """Columns under their canonical names with unchecked values, and where each row and column came from."""

    frame: pd.DataFrame
    places: Places
    bound: Mapping[str, Binding]
    metric: Metric
    findings: tuple[Finding, ...] = ()

    @classmethod
    def renamed(
        cls, frame: pd.DataFrame, places: Places, bound: Mapping[str, Binding], metric: Metric
    ) -> "RawTable":
        """Give the bound columns their canonical names; another column of such a name becomes `original_...`."""
        canonical = {binding.column: name for name, binding in bound.items()}
        names: dict[str, str] = {}
        found: list[Finding] = []
        for column in map(str, frame.columns):
            names[column] = canonical.get(column) or _free(column, frame.columns)
            if column not in canonical and names[column] != column:
                found.append(findings.ColumnKeptAs(column=column, name=names[column]))
            elif column in canonical and (name := title(names[column], metric)) != column:
                complement = bound[names[column]].complement
                found.append(findings.ColumnReadAs(column=column, name=name, complement=complement))
        places = replace(places, headings={name: binding.column for name, binding in bound.items()})
        frame = frame.rename(columns=names)
        return cls(frame=frame, places=places, bound=bound, metric=metric, findings=tuple(found))

    @property
    def limit(self) -> Limit:
        """The values that the metric can have."""
        return POSITIVE if self.metric is Metric.LOSS else SHARE

    def number(self, name: str, limit: Limit, rows: Rows | None = None) -> Numbers:
        """A canonical column as checked numbers, perhaps of some rows only."""
        column = self.frame[name] if rows is None else self.frame[name][rows]
        places = self.places if rows is None else self.places.keep(rows)
        complement, called = self.bound[name].complement, title(name, self.metric)
        return checked(column, name, limit, places, complement=complement, called=called)

    def where(self, wanted: Mapping[str, object]) -> "RawTable":
        """The rows with the wanted values in columns given by their canonical or original names."""
        if not wanted:
            return self
        rows = matching(
            self.frame, {self._key(name): value for name, value in wanted.items()}, self.places.label
        )
        frame, places = self.frame[rows].reset_index(drop=True), self.places.keep(rows)
        return replace(self, frame=frame, places=places, findings=(*self.findings, selected(rows, wanted)))

    def _key(self, name: str) -> str:
        for canonical, binding in self.bound.items():
            if binding.complement and name in (canonical, binding.column):
                raise TableError(
                    f"{self.places.label}: rows cannot be selected by {name}, because {canonical} is computed from"
                    f" {binding.column}; add a column {canonical}."
                )
            if name == binding.column:
                return canonical
        return name


def _free(column: str, taken: Iterable[str]) -> str:
    """The column's own name, or one that is free if it would pass for a canonical column."""
    others = {*CANONICAL, *taken} - {column}
    name = f"original_{column}" if column in CANONICAL else column
    while name in others:
        name = f"original_{name}"
    return name


def canonical_frame(raw: RawTable) -> tuple[pd.DataFrame, tuple[Finding, ...]]:
    """The checked and completed frame, canonical columns first, and what was renamed or assumed."""
    names = {name: _single(raw.frame, name, raw.places) for name in NAMES}
    density, error = raw.number("density", SHARE), raw.number("error", raw.limit)
    columns: dict[str, Column] = {name: _positive(raw, name) for name in CONFIGURATION}
    columns["width"] = columns["width"].astype(np.float64)
    columns["replicate"], numbering = _replicate(raw)
    configuration = codes([columns[name] for name in CONFIGURATION])
    chain = codes([configuration, columns["replicate"]])
    columns["level"] = _level(raw, configuration, chain, density)
    columns |= {"density": density, "error": error}
    stated = _stated(raw, configuration, chain, density == 1)
    unpruned = unpruned_errors(configuration, chain, density, error, stated)
    _refuse_unknown_unpruned(columns, unpruned, raw)
    columns["unpruned_error"] = unpruned
    extra = {name: raw.frame[name].array for name in raw.frame.columns if name not in {*names, *columns}}
    frame = pd.DataFrame({**columns, **extra})
    for position, (name, value) in enumerate(names.items()):
        frame.insert(position, name, value)
    return frame, (*raw.findings, *_absent(raw), *numbering, *_averaged(raw, stated, unpruned))


def _single(frame: pd.DataFrame, name: str, places: Places) -> str:
    """The one value of a name column, "" if it is absent or empty; several are refused."""
    if name not in frame.columns:
        return ""
    values = sorted({"" if pd.isna(value) else str(value).strip() for value in frame[name].unique()})
    if len(values) > 1:
        first = next(value for value in values if value)
        raise TableError(
            f"{places.label}: column {places.heading(name)} has several values ({distinct(pd.Series(values))}), but a"
            f' law needs a single {name}. Select one with --where {name}={first} (where={{"{name}": "{first}"}} in'
            " Python)."
        )
    return values[0]


def _positive(raw: RawTable, name: str) -> Column:
    """A positive column, int64 if all values are whole; 1 everywhere if it is absent."""
    if name not in raw.bound:
        return np.ones(len(raw.frame), dtype=np.int64)
    values = raw.number(name, POSITIVE)
    return values.astype(np.int64) if (values == np.floor(values)).all() else values


def _replicate(raw: RawTable) -> tuple[Codes, list[Finding]]:
    """Replicate numbers; labels that are not whole numbers are numbered from 1 in their order."""
    if "replicate" not in raw.bound:
        return np.ones(len(raw.frame), dtype=np.int64), []
    column, heading = raw.frame["replicate"], raw.places.heading("replicate")
    missing = column.isna().to_numpy()
    if missing.any():
        raw.places.refuse(missing, f"{heading} is missing. Number the replicates from 1.")
    values = as_numbers(column)
    if (values == np.floor(values)).all() and (np.abs(values) < 2**53).all():
        return values.astype(np.int64), []
    labels, different = pd.factorize(column.astype(str), sort=True)
    return labels.astype(np.int64) + 1, [findings.ReplicatesNumbered(column=heading, labels=len(different))]


def _level(raw: RawTable, configuration: Codes, chain: Codes, density: Numbers) -> Codes:
    """The given levels, or those that the densities imply; the same network twice is refused."""
    given = "level" in raw.bound
    by = raw.number("level", COUNT).astype(np.int64) if given else density
    key = pd.Series(codes((chain, by)))
    repeated = key.duplicated().to_numpy()
    if repeated.any():
        second = int(np.argmax(repeated))
        first = int(np.argmax((key == key.iloc[second]).to_numpy()))
        places, name = raw.places, raw.places.heading("level" if given else "density")
        raise TableError(
            f"{places.label}: {places.place(first)} and {places.place(second)} are the same network twice (same depth,"
            f" width, num_examples, replicate and {name} {by[second]:g}). Remove one, or number the replicates in a"
            " column replicate."
        )
    return by.astype(np.int64) if given else levels(configuration, chain, density)


def _stated(raw: RawTable, configuration: Codes, chain: Codes, dense: Rows) -> Numbers:
    """The unpruned errors that the source states, NaN where it states none.

    Where no row with density 1 gives it, all rows of a chain must state the same value.
    """
    stated = np.full(len(raw.frame), np.nan)
    if "unpruned_error" not in raw.bound:
        return stated
    there = raw.frame["unpruned_error"].notna().to_numpy()
    stated[there] = raw.number("unpruned_error", raw.limit, there)
    measured = np.bincount(configuration, weights=dense) > 0
    needed = np.flatnonzero(there & ~measured[configuration])
    part, _ = pd.factorize(chain[needed])
    first = needed[~pd.Series(part).duplicated().to_numpy()][part] if len(needed) else needed
    bad = np.zeros(len(chain), dtype=np.bool_)
    bad[needed] = stated[needed] != stated[first]
    if bad.any():
        before = raw.places.place(first[np.searchsorted(needed, np.argmax(bad))])
        heading = raw.places.heading("unpruned_error")
        raw.places.refuse(
            bad, f"{heading} differs from {before} of the same chain. Give one value per chain."
        )
    return stated


def _refuse_unknown_unpruned(columns: Mapping[str, Column], unpruned: Numbers, raw: RawTable) -> None:
    unknown = np.isnan(unpruned)
    if unknown.any():
        row = int(np.argmax(unknown))
        which = ", ".join(f"{name} {columns[name][row]:g}" for name in CONFIGURATION)
        raise TableError(
            f"{raw.places.label}, {raw.places.place(row)}: the configuration {which} has no unpruned"
            f" {title('error', raw.metric)}. Add its row with density 1, or a column"
            f" {title('unpruned_error', raw.metric)}."
        )


def _absent(raw: RawTable) -> list[Finding]:
    """What is assumed for each absent column."""
    absent = (name for name in (*CONFIGURATION, "replicate") if name not in raw.bound)
    levels = [] if "level" in raw.bound else [findings.LevelsComputed()]
    return [*(findings.ColumnAbsent(column=name) for name in absent), *levels]


def _averaged(raw: RawTable, stated: Numbers, used: Numbers) -> list[Finding]:
    """Where rows with density 1 differ from the stated unpruned errors."""
    differs = ~np.isnan(stated) & ~np.isclose(stated, used, rtol=1e-9, atol=0)
    if not differs.any():
        return []
    heading = raw.places.heading("unpruned_error")
    return [findings.UnprunedErrorsAveraged(column=heading, rows=int(differs.sum()))]


def codes(columns: Sequence[Column]) -> Codes:
    """One integer per row, equal where all columns are equal, in the order of the columns' values."""
    combined = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        part, values = pd.factorize(column, sort=True)
        combined = combined * len(values) + part
        combined = np.asarray(pd.factorize(combined, sort=True)[0], dtype=np.int64)
    return combined


def levels(configuration: Codes, chain: Codes, density: Numbers) -> Codes:
    """Pruning levels from the densities of a configuration: 0 where the density is 1.

    Replicates share levels even if one of them lacks a level, so levels are counted over the whole configuration, and
    densities that differ by less than 0.01% are one level, unless a chain has both.
    """
    merged = _ranks(configuration, density, SAME_DENSITY)
    twice = pd.Series(codes((chain, merged))).duplicated().any()
    return _ranks(configuration, density, 0) if twice else merged


def _ranks(configuration: Codes, density: Numbers, tolerance: float) -> Codes:
    order = np.lexsort((-density, configuration))
    group, kept = configuration[order], density[order]
    first = np.r_[True, group[1:] != group[:-1]]
    near = np.where(
        kept[:-1] == 1, 0, tolerance
    )  # a pruned network is never level 0, however little was pruned
    drop = np.r_[True, kept[1:] < kept[:-1] * (1 - near)] | first
    step = np.cumsum(drop)
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = step - step[start] + (kept[start] < 1)
    return rank


def unpruned_errors(
    configuration: Codes, chain: Codes, density: Numbers, error: Numbers, stated: Numbers
) -> Numbers:
    """The unpruned error of each row's configuration; NaN if the table does not give it.

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

"""From raw columns to the canonical frame: numbers checked, absent columns filled in, unpruned errors computed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.errors import TableError
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.table import findings
from prunecast.table.columns import CANONICAL, CONFIGURATION, NAMES, Binding, Transform, title
from prunecast.table.counts import check_counts
from prunecast.table.options import column_option, depth_option, metric_option, where_option
from prunecast.table.parse import Places
from prunecast.table.prepare import PERCENT, SIZES, in_percent, is_empty, split_depths
from prunecast.table.selection import distinct, matches, matching, selected, without_method
from prunecast.table.values import (
    COUNT,
    POSITIVE,
    SHARE,
    Limit,
    Numbers,
    Rows,
    as_numbers,
    checked,
    has_spreads,
)
from prunecast.text import count_in, normalized

LOSS = "loss"
"""The column of test losses, which tables of prunecast have beside that of errors."""
Codes = npt.NDArray[np.int64]
Column = npt.NDArray[np.generic]
SAME_DENSITY = 1e-4
"""Densities of several replicates that differ by less than this share belong to one level."""


@dataclass(frozen=True, kw_only=True)
class RawTable:
    """Columns with canonical names and unchecked values, and where each row and column came from."""

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
        bound = in_percent(frame, bound)
        canonical = {binding.column: name for name, binding in bound.items()}
        taken = {*CANONICAL, *map(str, frame.columns)}
        names: dict[str, str] = {}
        found: list[Finding] = []
        for column in map(str, frame.columns):
            names[column] = canonical.get(column) or _free(column, taken)
            if column not in canonical and names[column] != column:
                found.append(findings.ColumnKeptAs(column=column, name=names[column]))
            elif column in canonical and (name := title(names[column], metric)) != column:
                found.append(_read_as(bound[names[column]], name))
        places = replace(places, headings={name: binding.column for name, binding in bound.items()})
        frame = frame.rename(columns=names)
        return cls(frame=frame, places=places, bound=bound, metric=metric, findings=tuple(found))

    @property
    def limit(self) -> Limit:
        """The values that the metric can have."""
        return SHARE if self.metric.is_share else POSITIVE

    def number(self, name: str, limit: Limit, rows: Rows | None = None) -> Numbers:
        """A canonical column as checked numbers, perhaps of some rows only."""
        column = self.frame[name] if rows is None else self.frame[name][rows]
        places = self.places if rows is None else self.places.keep(rows)
        called = title(name, self.metric)
        percent = self._percentages() if limit is SHARE else ""
        return checked(
            column,
            name,
            limit,
            places,
            binding=self.bound[name],
            called=called,
            percent=percent,
            instead=self._loss(),
        )

    @property
    def dense(self) -> Rows:
        """Which rows are unpruned networks."""
        return np.asarray(self.bound["density"].of(as_numbers(self.frame["density"])) == 1, dtype=np.bool_)

    def _loss(self) -> str:
        """The option that fits the column of losses instead of errors; "" if there is none, or it cannot be fitted."""
        if LOSS not in self.frame or self.bound["error"].column == LOSS:
            return ""
        return metric_option(LOSS) if POSITIVE.allows(as_numbers(self.frame[LOSS])).all() else ""

    def _percentages(self) -> str:
        """The option that divides shares that look like percentages by 100; "" if there is none."""
        formulas: dict[str, str] = {}
        for name in ("density", "error", "unpruned_error"):
            if name in self.bound and (name == "density" or self.metric.is_share):
                binding = self.bound[name]
                values = as_numbers(self.frame[name]) / binding.divided_by
                if (values > 1).any() and not (values > PERCENT).any():
                    before = "1-" if binding.transform is Transform.COMPLEMENT else ""
                    formulas[title(name, self.metric)] = f"{before}{binding.column}/{PERCENT:g}"
        return column_option(**formulas) if formulas else ""

    def where(self, wanted: Mapping[str, object]) -> "RawTable":
        """The rows with the wanted values in columns given by their canonical or original names."""
        keyed = {self._key(name): value for name, value in wanted.items()}
        rows = matching(self.frame, keyed, self.places.label)
        baseline = self._baseline(rows, {name: value for name, value in keyed.items() if name != "method"})
        found = (selected(rows, wanted),) if wanted else ()
        methods = list(self.frame["method"][rows & ~baseline].unique()) if baseline.any() else []
        if len(methods) != 1:
            return self._keep(rows, *found)
        column = self.frame["method"].astype(object)
        shared = findings.BaselineShared(
            method=str(column[baseline].iloc[0]) if column[baseline].notna().iloc[0] else "",
            rows=int(baseline.sum()),
            shared_by=str(methods[0]),
        )
        frame = self.frame.assign(method=column.where(~baseline, methods[0]))
        return replace(self, frame=frame)._keep(rows | baseline, *found, shared)

    def _keep(self, rows: Rows, *found: Finding) -> "RawTable":
        """Some of the rows, without columns that have no value in them."""
        if rows.all() and not found:
            return self
        frame, places = self.frame[rows].reset_index(drop=True), self.places.keep(rows)
        optional = set(self.bound) - {"density", "error", *NAMES}
        empty = [name for name in self.bound if name in optional and is_empty(frame[name])]
        lost = [findings.ColumnEmpty(column=places.heading(name), name=name) for name in empty]
        bound = {name: binding for name, binding in self.bound.items() if name not in empty}
        frame = frame.drop(columns=empty)
        return replace(
            self, frame=frame, places=places, bound=bound, findings=(*self.findings, *found, *lost)
        )

    def _baseline(self, rows: Rows, others: Mapping[str, object]) -> Rows:
        """Unpruned networks without a method, of configurations that the rows have only pruned."""
        if "method" not in self.bound:
            return np.zeros(len(rows), dtype=np.bool_)
        dense = self.dense
        baseline = dense & without_method(self.frame["method"], dense)
        if not baseline.any():
            return np.zeros(len(rows), dtype=np.bool_)
        for name, value in others.items():
            baseline &= matches(self.frame, name, value, self.places.label)
        sizes = [self.frame[name].to_numpy() for name in CONFIGURATION if name in self.bound]
        configuration = codes(sizes) if sizes else np.zeros(len(rows), dtype=np.int64)
        pruned = np.isin(configuration, configuration[rows & ~baseline])
        unpruned = np.isin(configuration, configuration[rows & ~baseline & dense])
        return np.asarray(baseline & pruned & ~unpruned, dtype=np.bool_)

    def _key(self, name: str) -> str:
        for canonical, binding in self.bound.items():
            if binding.computed and name in (canonical, binding.column):
                raise TableError(
                    f"{self.places.label}: rows cannot be selected by {name}, because {canonical} is computed from"
                    f" {binding.column}; add a column {canonical}."
                )
            if name == binding.column:
                return canonical
        return name


def _read_as(binding: Binding, name: str) -> findings.ColumnReadAs:
    return findings.ColumnReadAs(
        column=binding.column,
        name=name,
        complement=binding.transform is Transform.COMPLEMENT,
        inverse=binding.transform is Transform.INVERSE,
        divided_by=binding.divided_by,
    )


def _free(column: str, taken: set[str]) -> str:
    """The column's own name, or an unused one if it is that of a canonical column."""
    if column not in CANONICAL:
        return column
    name = f"original_{column}"
    while name in taken:
        name = f"original_{name}"
    return name


def canonical_frame(raw: RawTable) -> tuple[pd.DataFrame, tuple[Finding, ...]]:
    """The checked and completed frame, canonical columns first, and what was renamed or assumed."""
    names = {name: _single(raw, name) for name in NAMES}
    density, error = raw.number("density", SHARE), raw.number("error", raw.limit)
    check_counts(raw.frame, density, raw.places)
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
    found = (*raw.findings, *_spreads(raw), *_absent(raw), *numbering, *_averaged(raw, stated, unpruned))
    return frame, found


def _single(raw: RawTable, name: str) -> str:
    """The one value of a name column, "" if it is absent or empty; several are refused."""
    frame, places = raw.frame, raw.places
    if name not in frame.columns:
        return ""
    values = sorted({"" if pd.isna(value) else str(value).strip() for value in frame[name].unique()})
    if len(values) > 1:
        raise TableError(
            f"{places.label}: column {places.heading(name)} has several values ({distinct(pd.Series(values))}), but a"
            f" law needs a single {name}. {_remedy(raw, name, values)}"
        )
    return values[0]


def _remedy(raw: RawTable, name: str, values: Sequence[str]) -> str:
    """How to get along with several values of a name: select one, or take depths from them."""
    first = next(filter(None, values))
    if name == "method":
        methods = raw.frame["method"][~without_method(raw.frame["method"], raw.dense)]
        first = min((str(method).strip() for method in methods.unique()), default=first)
    select, heading = f"Select one with {where_option(name, first)}.", raw.places.heading(name)
    depths = name == "family" and "depth" not in raw.bound
    counted = depths and all(count_in(value) is not None for value in values)
    if name == "family" and _each_of_one_size(raw, counts=counted or not depths):
        sizes = "their sizes are in other columns"
        return f"If these are networks of one family, remove column {heading}: {sizes}. {select}"
    if counted:
        wanted = f"use {column_option(parameters=heading)}"
        return (
            f"If these are networks of one family, named by their numbers of parameters, {wanted}. {select}"
        )
    split = split_depths(values) if depths else {}
    if len(split) < len(values) or len({family for family, _ in split.values()}) == len(values):
        return select
    return f"If the numbers in these names are depths, use {depth_option(heading)}. {select}"


def _each_of_one_size(raw: RawTable, *, counts: bool) -> bool:
    """Whether each name of a family has its own depth, width or, with `counts`, number of parameters."""
    frame, sizes = raw.frame, set(map(normalized, SIZES))
    names = frame["family"].nunique(dropna=False)
    axes = [axis for axis in ("depth", "width") if axis in raw.bound]
    others = [column for column in frame.columns if counts and normalized(column) in sizes]
    return any(
        len(frame[own].drop_duplicates()) == names == len(frame[["family", *own]].drop_duplicates())
        for own in (*([axis] for axis in axes), axes, *([*axes, other] for other in others))
        if own
    )


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
    """The given levels, or levels from the densities; refuses the same network twice."""
    given = "level" in raw.bound
    by = raw.number("level", COUNT).astype(np.int64) if given else density
    key = pd.Series(codes((chain, by)))
    repeated = key.duplicated().to_numpy()
    if repeated.any():
        second = int(np.argmax(repeated))
        first = int(np.argmax((key == key.iloc[second]).to_numpy()))
        places, name = raw.places, raw.places.heading("level" if given else "density")
        raise TableError(
            f"{places.label}: {places.place(first)} and {places.place(second)} are the same training run twice (same "
            "depth,"
            f" width, num_examples, replicate and {name} {by[second]:g}). {_difference(raw, key)}"
        )
    return by.astype(np.int64) if given else levels(configuration, chain, density)


def _difference(raw: RawTable, key: "pd.Series[int]") -> str:
    """What to do about rows of the same network; names the column that they differ in, if there is one."""
    twice = key.duplicated(keep=False).to_numpy()
    repeated, found = np.asarray(key)[twice], list[tuple[int, str]]()
    for name in raw.frame.columns.difference(list(CANONICAL), sort=False):
        labels, values = pd.factorize(raw.frame[name].astype(object)[twice])
        several = 1 < len(values) <= max(len(labels) // 2, 2)
        if several and not pd.Series(codes((repeated, labels))).duplicated().any():
            found.append((len(values), name))
    if not found:
        return "Remove one, or number the replicates in a column replicate."
    column = min(found)[1]
    alike = raw.frame[column][twice]
    # For a column of training steps, keep the last one.
    kept = alike.max() if pd.api.types.is_numeric_dtype(alike) else alike.iloc[0]
    choices = [f"keep one value with {where_option(column, kept)}"]
    numbers = as_numbers(raw.frame[column])
    sizes, named = (numbers > 0).all(), not (numbers != np.floor(numbers)).any() or np.isnan(numbers).all()
    choices += [
        f"use {column_option(**{name: column})} if it is {meaning}"
        for name, meaning, possible in (
            ("replicate", "the replicate", named),
            ("width", "the width", sizes),
            ("num_examples", "the amount of data", sizes),
        )
        if possible and name not in raw.bound
    ]
    return f"They differ in column {column} ({distinct(raw.frame[column])}): {', or '.join(choices)}."


def _stated(raw: RawTable, configuration: Codes, chain: Codes, dense: Rows) -> Numbers:
    """The unpruned errors that the source states, NaN if it states none.

    Without a row of density 1, all rows of a chain must state the same value.
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


def _spreads(raw: RawTable) -> list[Finding]:
    """Which columns of numbers have a spread after their values."""
    numbers = (name for name in raw.bound if name not in {*NAMES, "replicate"})
    return [
        findings.SpreadsIgnored(column=raw.places.heading(name))
        for name in numbers
        if has_spreads(raw.frame[name])
    ]


def _absent(raw: RawTable) -> list[Finding]:
    """What is assumed for each absent column."""
    told = {own.name for own in raw.findings if isinstance(own, findings.ColumnEmpty)}
    absent = (name for name in (*CONFIGURATION, "replicate") if name not in {*raw.bound, *told})
    levels = [] if "level" in {*raw.bound, *told} else [findings.LevelsComputed()]
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
    """Means by group, independent of the order of rows; if all values are equal, exactly that value."""
    order = np.lexsort((values, group))
    group, values = group[order], values[order]
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, group, values)
    np.maximum.at(high, group, values)
    count = np.bincount(group, minlength=size)
    total = np.bincount(group, weights=values, minlength=size)
    with np.errstate(invalid="ignore"):
        return np.where(low == high, low, total / count)

"""The checked table with one canonical row per trained network; reading it and selecting from it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.catalog import find_dataset
from prunecast.errors import TableError
from prunecast.findings import Finding
from prunecast.metric import Metric
from prunecast.spec import ErrorRise, Unpruned, pooled_noise, too_large
from prunecast.table import shipped, wide
from prunecast.table.checks import (
    RawTable,
    canonical_frame,
    codes,
    unpruned_errors,
)
from prunecast.table.columns import (
    CANONICAL,
    CONFIGURATION,
    COUNTS,
    LATENCY,
    NAMES,
    TIMED_WITH,
    as_metric,
    bind,
)
from prunecast.table.findings import ChanceAssumed, TooLargeLeftOut
from prunecast.table.parse import Places, numbered, read_file, refuse_repeated
from prunecast.table.prepare import last_axes, prepare
from prunecast.table.selection import matching, selected
from prunecast.table.untrained import read_untrained
from prunecast.table.values import SHARE, as_numbers, checked
from prunecast.text import plural

USUAL_NOISE = 0.034
"""Relative standard deviation of replicates in the paper, for tables without replicates."""
ConfigurationKey = tuple[float, float, float]
"""depth, width and number of examples"""


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Measured errors of one (family, dataset, method, recipe), checked and in canonical columns."""

    frame: pd.DataFrame
    """one row per trained network in the order of the source; extra columns after the canonical ones"""
    metric: Metric
    """what the column `error` holds: errors, validation errors or losses"""
    source: str
    """the file's name, the shipped table's name, or "DataFrame\""""
    digest: str
    """SHA-256 of the measurements, independent of formatting and of the order of rows"""
    chance: float | None
    """the error of guessing, if known; never for losses"""
    columns: frozenset[str]
    """the canonical columns and counts of weights that the source gave; other canonical columns were filled in"""
    findings: tuple[Finding, ...] = ()
    """what was renamed, converted, assumed or left out"""
    selected: bool = False
    """whether networks that are too large for their data were left out"""
    untrained: pd.DataFrame | None = None
    """latencies of sizes that `prunecast time` timed without training; None where it did not"""

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        """One line for an interactive session; the rows are in `frame`."""
        kind = ", ".join(word for word in (self.family, self.dataset, self.method, self.recipe) if word)
        sizes = plural(self.frame[list(CONFIGURATION)].drop_duplicates().shape[0], "configuration")
        text = f"{plural(len(self), 'row')} of {sizes}, {plural(len(self.findings), 'finding')}"
        return f"<Table {self.source}: {text}{f' ({kind})' if kind else ''}>"

    def _repr_html_(self) -> str:
        """The line above and the first rows, for notebooks."""
        rows = self.frame.to_html(max_rows=10, index=False, border=0)
        return f"<div><p>{escape(repr(self))}</p>{rows}</div>"

    @property
    def family(self) -> str:
        """The family of networks, or "" if the source does not say."""
        return self._name("family")

    @property
    def dataset(self) -> str:
        """The dataset, or "" if the source does not say."""
        return self._name("dataset")

    @property
    def method(self) -> str:
        """The pruning method, or "" if the source does not say."""
        return self._name("method")

    @property
    def recipe(self) -> str:
        """The training recipe, or "" if the source does not say."""
        return self._name("recipe")

    @property
    def timed_with(self) -> str:
        """Runtime, batch and threads of its latencies, or "" if the source does not say."""
        if LATENCY not in self.frame or TIMED_WITH not in self.frame:
            return ""
        known = self.frame[TIMED_WITH][self.frame[LATENCY].notna()].dropna()
        return next(filter(None, map(str.strip, map(str, known.unique()))), "")

    @property
    def better_than_chance(self) -> pd.DataFrame:
        """The rows whose error is below that of guessing; all rows, if the chance error is unknown."""
        return self.frame if self.chance is None else self.frame[self.frame["error"] < self.chance]

    @property
    def replicate_noise(self) -> float | None:
        """Relative standard deviation of replicates better than chance around their mean; None without replicates."""
        rows = self.better_than_chance
        return pooled_noise(rows["error"], rows.groupby([*CONFIGURATION, "level"]).ngroup())

    def _name(self, column: str) -> str:
        return str(self.frame[column].iloc[0])

    def select(self, **where: object) -> "Table":
        """The rows where each named column equals its value, numbers compared as numbers.

        Unpruned errors are recomputed if rows with density 1 are among the selected ones, and kept otherwise.

        Args:
            where: values by column, such as `num_examples=50000, method="imp"`.

        Returns:
            A table of the rows that match all of them.

        Raises:
            PrunecastError: a column is unknown, or no row matches.
        """
        rows = matching(self.frame, where, self.source)
        kept = self._keep(rows)
        return replace(kept, findings=(*self.findings, selected(rows, where))) if where else kept

    def too_large(self) -> dict[ConfigurationKey, ErrorRise]:
        """The configurations that are too large for their data by the paper's rule, with the reason.

        Networks with the same number of examples are compared. Rows that are no better than chance do not count, as in
        a fit, which leaves them out. The noise is that of the table's replicates, if it has any.

        Returns:
            For each (depth, width, num_examples) that is too large, the smaller configuration with less error.
        """
        noise, known = self.replicate_noise, _unpruned(self.better_than_chance)
        known = known if self.chance is None else known[known["error"] < self.chance]
        found: dict[ConfigurationKey, ErrorRise] = {}
        by_examples: dict[float, list[Unpruned]] = {}
        for row in known.to_dict("records"):
            own = {str(name): value for name, value in row.items()}
            by_examples.setdefault(own.pop("num_examples"), []).append(Unpruned(**own))
        for examples, networks in by_examples.items():
            reasons = too_large(networks, USUAL_NOISE if noise is None else noise)
            found |= {(depth, width, examples): reason for (depth, width), reason in reasons.items()}
        return found

    def without_too_large(self) -> "Table":
        """The rows of networks that are not too large for their data, as the paper selects them.

        A configuration is too large if it is deeper or wider than another one and its unpruned error is larger by more
        than the noise of replicates; so are all larger ones. A table is selected only once: the remaining replicates
        have a different noise, and a second selection would leave out still more.
        """
        if self.selected:
            return self
        out = self.too_large()
        configurations = list(zip(*(self.frame[name] for name in CONFIGURATION), strict=True))
        kept = self._keep(np.array([one not in out for one in configurations])) if out else self
        first, reason = next(iter(out.items()), (None, None))
        finding = TooLargeLeftOut(
            configurations=len(out),
            total=len(set(configurations)),
            rows=len(self) - len(kept),
            first=first,
            reason=reason,
        )
        return replace(kept, findings=(*self.findings, finding), selected=True)

    def _keep(self, rows: npt.NDArray[np.bool_]) -> "Table":
        frame = self.frame[rows].reset_index(drop=True)
        configuration = codes([frame[name].to_numpy() for name in CONFIGURATION])
        chain = codes([configuration, frame["replicate"].to_numpy()])
        numbers = (frame[name].to_numpy(dtype=np.float64) for name in ("density", "error", "unpruned_error"))
        frame["unpruned_error"] = unpruned_errors(configuration, chain, *numbers)
        return replace(self, frame=frame, digest=digest(frame, self.metric))


def _unpruned(alive: pd.DataFrame) -> pd.DataFrame:
    """Each configuration's mean error at density 1, or else the stated one, and the number of replicates."""
    dense = alive["error"].where(alive["density"] == 1)
    own = alive.assign(dense=dense).groupby(list(CONFIGURATION), as_index=False)
    known = own.agg(
        error=("dense", "mean"), stated=("unpruned_error", "first"), replicates=("dense", "count")
    )
    known["error"] = known["error"].fillna(known.pop("stated"))
    known["replicates"] = known["replicates"].clip(lower=1)
    return known


def digest(frame: pd.DataFrame, metric: Metric) -> str:
    """SHA-256 over the metric, the four names, and every number that a law reads, rows in sorted order.

    Numbers enter as little-endian float64. Extra columns do not enter, except the counts of parameters, which some
    laws read. Validation errors count as errors, because the numbers already differ.
    """
    kind = "error" if metric in (Metric.ERROR, Metric.VALIDATION_ERROR) else str(metric)
    columns = [*CANONICAL[len(NAMES) :], *(name for name in COUNTS if name in frame.columns)]
    values = [as_numbers(frame[name]) for name in columns]
    order = np.lexsort(values[::-1])
    total = hashlib.sha256(repr((kind, [str(frame[name].iloc[0]) for name in NAMES], columns)).encode())
    for column in values:
        total.update(column[order].astype("<f8").tobytes())
    return total.hexdigest()


def read(
    source: str | Path | pd.DataFrame,
    *,
    metric: str = Metric.ERROR,
    chance: float | None = None,
    where: Mapping[str, object] | None = None,
    columns: Mapping[str, str] | None = None,
    depth_from: str | None = None,
    melt: str | None = None,
) -> Table:
    """Read and check a table of pruning results.

    Args:
        source: a CSV, TSV or Parquet file, a DataFrame, or the name of a shipped table if there is no such file.
        metric: "error", "loss", or any other metric by its name. A score such as F1, of which more is better, is
            converted to one minus it.
        chance: the error of guessing, between 0 and 1, where the dataset is not a known one.
        where: values of columns; only the rows that have them are kept, before anything is checked.
        columns: canonical columns as formulas of others, such as {"density": "1-sparsity/100"}.
        depth_from: a column of names such as resnet20, whose numbers are depths.
        melt: what the numbers in columns such as 50%, 80%, 90% are, and what their cells hold: "sparsity,accuracy".

    Returns:
        The table in canonical columns, with findings about what was renamed, converted or assumed.

    Raises:
        PrunecastError: the file cannot be read, a column is missing or a value is impossible; the message names the
            row and how to fix it.
    """
    kind = as_metric(metric)
    frame, places, name = _open(source)
    if frame.empty:
        raise TableError(f"{places.label} has no rows; a table needs at least one.")
    melted: list[Finding] = []
    if melt is not None:
        frame, places, *melted = wide.melt(frame, melt, places)
    prepared = prepare(frame, places, kind, columns, depth_from)
    frame = prepared.frame
    bound = bind(
        list(frame.columns),
        kind,
        places.label,
        partial(_largest, frame),
        partial(wide.melt_suggestion, frame, kind),
        prepared.empty,
    )
    frame, bound, sizes = last_axes(frame, bound)
    raw = RawTable.renamed(frame, places, bound, kind)
    raw = replace(raw, findings=(*melted, *prepared.findings, *sizes, *raw.findings)).where(where or {})
    frame, found = canonical_frame(raw)
    guess, assumed = _chance(frame, kind, chance, raw.places)
    found_table = Table(
        frame=frame,
        metric=kind,
        source=name,
        digest=digest(frame, kind),
        chance=guess,
        columns=frozenset(raw.bound) | (set(COUNTS) & set(frame.columns)),
        findings=(*found, *assumed),
    )
    if isinstance(source, pd.DataFrame):
        return found_table
    return replace(found_table, untrained=read_untrained(Path(source), found_table.timed_with))


def _largest(frame: pd.DataFrame) -> dict[str, float]:
    """The largest number of each column that has one."""
    values = {own: as_numbers(frame[own]) for own in frame.columns}
    return {own: float(np.nanmax(numbers)) for own, numbers in values.items() if not np.isnan(numbers).all()}


def as_table(source: Table | str | Path | pd.DataFrame) -> Table:
    """The table itself, or the one that a path, the name of a shipped table or a DataFrame gives.

    To select rows, to read a loss or to name columns, call `read` with its options.
    """
    return source if isinstance(source, Table) else read(source)


def _open(source: str | Path | pd.DataFrame) -> tuple[pd.DataFrame, Places, str]:
    """The columns unchanged, the places of the rows, and the source's name."""
    if isinstance(source, pd.DataFrame):
        name = "DataFrame"
        frame, places = numbered(source, name)
    else:
        path, name = _locate(source)
        frame, places = read_file(path)
        if (
            path.parent == shipped.FOLDER
        ):  # messages name the table, not the place where the package is installed
            places = replace(places, label=name)
    named = [
        at for at, name in enumerate(frame.index.names) if name is not None and not _in_columns(frame, at)
    ]
    frame = frame.reset_index(named, allow_duplicates=True) if named else frame  # as groupby leaves them
    frame = frame.set_axis([str(column) for column in frame.columns], axis=1).reset_index(drop=True)
    refuse_repeated(list(frame.columns), places.label)
    return frame, places, name


def _in_columns(frame: pd.DataFrame, level: int) -> bool:
    """Whether a column repeats a level of the index, as after `set_index(drop=False)`."""
    values = frame.index.get_level_values(level)
    column = frame.get(values.name)
    return isinstance(column, pd.Series) and values.equals(pd.Index(column))


def _locate(source: str | Path) -> tuple[Path, str]:
    """The file and its name; the name of a shipped table counts only if there is no such file."""
    path = Path(source)
    try:
        exists = path.exists()
    except PermissionError:
        exists = True
    except (OSError, ValueError):
        exists = False
    if exists:
        return path, path.name
    if shipped.known(str(source)):
        return shipped.path(str(source)), shipped.resolve(str(source))
    raise TableError(f"{source}: there is no such file, and {shipped.unknown(str(source))}")


def _chance(
    frame: pd.DataFrame, metric: Metric, given: float | None, places: Places
) -> tuple[float | None, list[Finding]]:
    """The chance error: the argument, else the column `chance_error`, else that of the known dataset."""
    if metric is not Metric.ERROR:
        if given is not None:
            raise TableError(f"{places.label}: {metric.plural} have no chance error; leave it out.")
        return None, []
    if given is not None:
        if not 0 < given <= 1:
            raise TableError(f"{places.label}: the chance error must be between 0 and 1, not {given:g}.")
        return float(given), []
    if "chance_error" in frame.columns:
        values = checked(frame["chance_error"], "chance_error", SHARE, places)
        if (differs := values != values[0]).any():
            places.refuse(
                differs, f"chance_error differs from {values[0]:g} in the first row. Give one value."
            )
        return float(values[0]), []
    dataset = str(frame["dataset"].iloc[0])
    facts = find_dataset(dataset)
    if facts is None:
        return None, []
    return facts.chance_error, [ChanceAssumed(dataset=dataset, chance_error=facts.chance_error)]

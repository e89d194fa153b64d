"""A table under its canonical names, before its values are checked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from prunecast.table.columns import CANONICAL, Binding, named
from prunecast.table.errors import TableError
from prunecast.table.rows import Rows
from prunecast.table.values import Limit, Numbers, checked
from prunecast.table.where import chosen, in_words


@dataclass(frozen=True, kw_only=True)
class Raw:
    """Renamed columns with values as they stand, and where each row and column came from."""

    frame: pd.DataFrame
    rows: Rows
    bound: Mapping[str, Binding]
    metric: str
    notes: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the source gives this canonical column."""
        return name in self.bound

    def number(self, name: str, limit: Limit) -> Numbers:
        """A canonical column as checked numbers."""
        word, complement = named(name, self.metric), self.bound[name].complement
        return checked(self.frame[name], name, limit, self.rows, complement, word)

    def noted(self, *notes: str) -> "Raw":
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def where(self, wanted: Mapping[str, object]) -> "Raw":
        """The rows whose columns, by canonical name or the file's own, equal the wanted values."""
        if not wanted:
            return self
        mask = chosen(self.frame, {self._key(name): value for name, value in wanted.items()}, self.rows.label)
        note = f"{int(mask.sum()):,} of {len(mask):,} rows are read: {in_words(wanted)}."
        kept = replace(self, frame=self.frame[mask].reset_index(drop=True), rows=self.rows.keep(mask))
        return kept.noted(note)

    def _key(self, name: str) -> str:
        for canonical, binding in self.bound.items():
            if binding.complement and name in (canonical, binding.column):
                raise TableError(
                    f"{self.rows.label}: rows cannot be selected by {name}, because"
                    f" {canonical} is worked out from {binding.column}; add a column {canonical}"
                )
            if name == binding.column:
                return canonical
        return name


def renamed(frame: pd.DataFrame, rows: Rows, bound: Mapping[str, Binding], metric: str) -> Raw:
    """Canonical names for the bound columns; another column of such a name becomes `original_...`."""
    canonical = {binding.column: name for name, binding in bound.items()}
    names, notes = {}, []
    for column in map(str, frame.columns):
        names[column] = canonical.get(column) or _free(column, frame.columns)
        if column not in canonical and names[column] != column:
            notes.append(f"Column {column} is kept as {names[column]}.")
        elif column in canonical and (name := named(names[column], metric)) != column:
            what = f"{name} = 1 - {column}" if bound[names[column]].complement else name
            notes.append(f"Column {column} is read as {what}.")
    rows = replace(rows, headings={name: binding.column for name, binding in bound.items()})
    return Raw(frame=frame.rename(columns=names), rows=rows, bound=bound, metric=metric, notes=tuple(notes))


def _free(column: str, taken: Iterable[str]) -> str:
    """The column's own name, or one that is free where it would pass for a canonical column."""
    others = {*CANONICAL, *taken} - {column}
    name = f"original_{column}" if column in CANONICAL else column
    while name in others:
        name = f"original_{name}"
    return name

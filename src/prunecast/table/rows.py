"""Where each row came from, so that a refusal names file, row and column."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from prunecast.table.errors import TableError


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The places of a table's rows: a label for the file, and a line or row number for each row."""

    label: str
    unit: str
    """"line" of a text file, where the header is line 1, or "row" of a DataFrame or Parquet file, from 1."""
    places: npt.NDArray[np.int64]
    headings: Mapping[str, str] = field(default_factory=dict)
    """The file's own word for a canonical column."""

    def __len__(self) -> int:
        return len(self.places)

    def keep(self, chosen: npt.NDArray[np.bool_]) -> "Rows":
        """The places of the chosen rows."""
        return replace(self, places=self.places[chosen])

    def place(self, row: int) -> str:
        """A row in words, as "line 7"."""
        return f"{self.unit} {self.places[row]}"

    def heading(self, column: str) -> str:
        """The file's own word for a canonical column."""
        return self.headings.get(column, column)

    def refuse(self, column: str, bad: npt.NDArray[np.bool_], problem: str) -> NoReturn:
        """Raise for the first bad row, and say how many more there are."""
        row, more = int(np.argmax(bad)), int(bad.sum()) - 1
        others = f" (and {more:,} more {self.unit}{'s' if more > 1 else ''})" if more else ""
        where = f"{self.label}, {self.place(row)}{others}, column {self.heading(column)}"
        raise TableError(f"{where}: {problem}")

"""The checked table: one canonical row per trained network."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import CONFIGURATION
from prunecast.table.digest import digest
from prunecast.table.groups import codes, unpruned
from prunecast.table.where import chosen, in_words


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Measured errors of one (family, dataset, method, recipe), checked and in canonical columns."""

    frame: pd.DataFrame = field(repr=False)
    """One row per trained network in the order of the source; extra columns after the canonical ones."""
    metric: str
    """"error" or "loss"; either way the column `error` holds the metric's value."""
    source: str
    """The file's name, the shipped table's name, or "DataFrame"."""
    digest: str
    """SHA-256 of the measurements, independent of formatting and of the order of rows."""
    chance: float | None
    """The error of guessing, where known; never for losses."""
    notes: tuple[str, ...]
    """What was renamed, converted or assumed, in sentences."""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def family(self) -> str:
        """The family of architectures, or "" where the source does not say."""
        return str(self.frame["family"].iloc[0])

    @property
    def dataset(self) -> str:
        """The dataset, or "" where the source does not say."""
        return str(self.frame["dataset"].iloc[0])

    @property
    def method(self) -> str:
        """The pruning method, or "" where the source does not say."""
        return str(self.frame["method"].iloc[0])

    @property
    def recipe(self) -> str:
        """The training recipe, or "" where the source does not say."""
        return str(self.frame["recipe"].iloc[0])

    def select(self, **where: object) -> "Table":
        """The rows where each named column equals its value, numbers compared as numbers.

        Unpruned errors are worked out anew where rows with density 1 are among those selected, and
        kept otherwise.
        """
        frame = self.frame[chosen(self.frame, where, self.source)].reset_index(drop=True)
        frame["unpruned_error"] = unpruned_of(frame)
        note = f"{len(frame):,} of {len(self):,} rows are selected: {in_words(where)}."
        return Table(
            frame=frame,
            metric=self.metric,
            source=self.source,
            digest=digest(frame, self.metric),
            chance=self.chance,
            notes=(*self.notes, note) if where else self.notes,
        )


def unpruned_of(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Unpruned errors of a canonical frame, whose own column stands in for a missing level 0."""
    configuration = codes([frame[name].to_numpy() for name in CONFIGURATION])
    chain = codes([configuration, frame["replicate"].to_numpy()])
    columns = (frame[name].to_numpy(dtype=np.float64) for name in ("density", "error", "unpruned_error"))
    return unpruned(configuration, chain, *columns)

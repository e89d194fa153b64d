"""The checked table: one canonical row per trained network."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import CONFIGURATION
from prunecast.table.digest import digest
from prunecast.table.groups import codes, unpruned
from prunecast.table.too_large import oversized
from prunecast.table.where import chosen, in_words
from prunecast.text import plural


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Measured errors of one (family, dataset, method, recipe), checked and in canonical columns."""

    frame: pd.DataFrame
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
    columns: frozenset[str] = frozenset()
    """The canonical columns and counts that the source gave; others were filled in."""
    selected: bool = False
    """Whether networks that are too large for their data were left out."""

    def __len__(self) -> int:
        return len(self.frame)

    def __repr__(self) -> str:
        """A line for who asks at a prompt; the rows are in `frame`."""
        kind = ", ".join(word for word in (self.family, self.dataset, self.method, self.recipe) if word)
        sizes = plural(self.frame[list(CONFIGURATION)].drop_duplicates().shape[0], "configuration")
        said = f"{plural(len(self), 'row')} of {sizes}, {plural(len(self.notes), 'note')}"
        return f"<Table {self.source}: {said}{f' ({kind})' if kind else ''}>"

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
        kept = self._keep(chosen(self.frame, where, self.source))
        if not where:
            return kept
        note = f"{len(kept):,} of {len(self):,} rows are selected: {in_words(where)}."
        return replace(kept, notes=(*self.notes, note))

    def without_too_large(self) -> "Table":
        """The rows of networks that are not too large for their data, as the paper selects them.

        A configuration is too large from the point on where a deeper or wider network has, unpruned, the larger
        error, by more than the noise of replicates. A table is selected once, as the replicates that are left have
        another noise, by which still more would go.
        """
        if self.selected:
            return self
        out = oversized(self.frame, self.chance)
        if not out:
            note = "No configuration is too large for its data, so none is left out."
            return replace(self, notes=(*self.notes, note), selected=True)
        configurations = list(zip(*(self.frame[name] for name in CONFIGURATION), strict=True))
        kept = self._keep(np.array([one not in out for one in configurations]))
        first, reason = next(iter(out.items()))
        place = "depth {:g}, width {:g}, {:,.0f} examples".format(*first)
        found = (
            f"{len(out):,} of {len(set(configurations)):,} configurations ({len(self) - len(kept):,} rows)"
        )
        left, such = ("is", "its data, namely") if len(out) == 1 else ("are", "their data, such as")
        note = f"{found} {left} left out as too large for {such} {place}: {reason}."
        return replace(kept, notes=(*self.notes, note), selected=True)

    def _keep(self, rows: npt.NDArray[np.bool_]) -> "Table":
        frame = self.frame[rows].reset_index(drop=True)
        frame["unpruned_error"] = unpruned_of(frame)
        return replace(self, frame=frame, digest=digest(frame, self.metric))


def unpruned_of(frame: pd.DataFrame) -> npt.NDArray[np.float64]:
    """Unpruned errors of a canonical frame, whose own column stands in for a missing level 0."""
    configuration = codes([frame[name].to_numpy() for name in CONFIGURATION])
    chain = codes([configuration, frame["replicate"].to_numpy()])
    columns = (frame[name].to_numpy(dtype=np.float64) for name in ("density", "error", "unpruned_error"))
    return unpruned(configuration, chain, *columns)

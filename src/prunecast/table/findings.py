"""What reading and selecting a table renamed, assumed or left out."""

from dataclasses import dataclass
from typing import ClassVar

from prunecast.findings import Finding
from prunecast.spec import ErrorRise


@dataclass(frozen=True, kw_only=True)
class ColumnReadAs(Finding):
    """A column of another name holds a canonical quantity, or one minus it."""

    kind: ClassVar[str] = "column_read_as"
    column: str
    name: str
    complement: bool
    """whether the quantity is one minus the column"""
    inverse: bool = False
    """whether the quantity is one divided by the column"""
    divided_by: float = 1.0
    """the column is divided by this first: 100 if it holds percentages"""


@dataclass(frozen=True, kw_only=True)
class ColumnDefined(Finding):
    """A column is defined by a formula that the caller gave."""

    kind: ClassVar[str] = "column_defined"
    name: str
    formula: str


@dataclass(frozen=True, kw_only=True)
class SpreadsIgnored(Finding):
    """Values of a column have a spread, such as 93.4 ± 0.2, which is not used."""

    kind: ClassVar[str] = "spreads_ignored"
    column: str


@dataclass(frozen=True, kw_only=True)
class ColumnsMelted(Finding):
    """Columns whose names differ only in a number were made rows."""

    kind: ClassVar[str] = "columns_melted"
    columns: tuple[str, ...]
    number: str
    """the new column of the numbers in their names"""
    value: str
    """the new column of their cells"""


@dataclass(frozen=True, kw_only=True)
class ColumnEmpty(Finding):
    """A column has no value in any row, and is ignored."""

    kind: ClassVar[str] = "column_empty"
    column: str
    name: str
    """the canonical column that it was matched to"""


@dataclass(frozen=True, kw_only=True)
class DepthsFromNames(Finding):
    """Depths are the numbers in the names of a column."""

    kind: ClassVar[str] = "depths_from_names"
    column: str
    depths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class SizeFromParameters(Finding):
    """Numbers of parameters are the only size of the networks; widths are computed from them."""

    kind: ClassVar[str] = "size_from_parameters"
    column: str
    largest: float


@dataclass(frozen=True, kw_only=True)
class BaselineShared(Finding):
    """Unpruned networks without a method serve the one that is used."""

    kind: ClassVar[str] = "baseline_shared"
    method: str
    """what the source calls no pruning; may be empty"""
    rows: int
    shared_by: str


@dataclass(frozen=True, kw_only=True)
class ColumnKeptAs(Finding):
    """A column whose name is taken by a canonical one is kept under another."""

    kind: ClassVar[str] = "column_kept_as"
    column: str
    name: str


@dataclass(frozen=True, kw_only=True)
class ColumnAbsent(Finding):
    """An absent column is taken to be 1 in every row."""

    kind: ClassVar[str] = "column_absent"
    column: str


@dataclass(frozen=True, kw_only=True)
class LevelsComputed(Finding):
    """The source has no levels; they are computed from the densities."""

    kind: ClassVar[str] = "levels_computed"


@dataclass(frozen=True, kw_only=True)
class RowsSelected(Finding):
    """Only rows with given values are used."""

    kind: ClassVar[str] = "rows_selected"
    rows: int
    total: int
    where: tuple[tuple[str, str], ...]
    """columns and their values"""


@dataclass(frozen=True, kw_only=True)
class ReplicatesNumbered(Finding):
    """Replicates have labels that are not whole numbers; they are numbered from 1."""

    kind: ClassVar[str] = "replicates_numbered"
    column: str
    labels: int


@dataclass(frozen=True, kw_only=True)
class ChanceAssumed(Finding):
    """The chance error is that of the dataset of this name."""

    kind: ClassVar[str] = "chance_assumed"
    dataset: str
    chance_error: float


@dataclass(frozen=True, kw_only=True)
class UnprunedErrorsAveraged(Finding):
    """The source states unpruned errors that differ from the means of its rows with density 1, which are used."""

    kind: ClassVar[str] = "unpruned_errors_averaged"
    column: str
    rows: int


@dataclass(frozen=True, kw_only=True)
class TooLargeLeftOut(Finding):
    """Networks too large for their data are left out; none where `reason` is None."""

    kind: ClassVar[str] = "too_large_left_out"
    configurations: int
    total: int
    rows: int
    first: tuple[float, float, float] | None
    """depth, width and number of examples of the first configuration that is left out"""
    reason: ErrorRise | None
    """why that configuration is too large"""

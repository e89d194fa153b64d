"""Tables of pruning results: read, checked, and in canonical form."""

from prunecast.errors import TableError
from prunecast.table import findings, shipped
from prunecast.table.columns import (
    CANONICAL,
    CONFIGURATION,
    COSTS,
    COUNTS,
    other_latency,
    synonyms,
)
from prunecast.table.table import Table, as_table, read
from prunecast.table.values import LARGEST, TINY

__all__ = [
    "CANONICAL",
    "CONFIGURATION",
    "COSTS",
    "COUNTS",
    "LARGEST",
    "TINY",
    "Table",
    "TableError",
    "as_table",
    "findings",
    "other_latency",
    "read",
    "shipped",
    "synonyms",
]

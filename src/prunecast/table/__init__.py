"""Tables of pruning results: read, checked, and in canonical form."""

from prunecast.errors import TableError
from prunecast.table import findings, shipped
from prunecast.table.columns import (
    CANONICAL,
    CONFIGURATION,
    COSTS,
    COUNTS,
    RUNTIMES,
    TIMED_WITH,
    Runtime,
    other_latency,
    synonyms,
)
from prunecast.table.table import Table, as_table, read
from prunecast.table.untrained import UNTRAINED, latency_column, untrained_path
from prunecast.table.values import LARGEST, TINY

__all__ = [
    "CANONICAL",
    "CONFIGURATION",
    "COSTS",
    "COUNTS",
    "LARGEST",
    "RUNTIMES",
    "TIMED_WITH",
    "TINY",
    "UNTRAINED",
    "Runtime",
    "Table",
    "TableError",
    "as_table",
    "findings",
    "latency_column",
    "other_latency",
    "read",
    "shipped",
    "synonyms",
    "untrained_path",
]

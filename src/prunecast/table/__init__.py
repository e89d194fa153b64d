"""Tables of pruning results: read, checked, and in canonical form."""

from prunecast.errors import TableError
from prunecast.table import findings, shipped
from prunecast.table.columns import CANONICAL, CONFIGURATION, COUNTS, NAMES, synonyms
from prunecast.table.table import ConfigurationKey, Table, read

__all__ = [
    "CANONICAL",
    "CONFIGURATION",
    "COUNTS",
    "NAMES",
    "ConfigurationKey",
    "Table",
    "TableError",
    "findings",
    "read",
    "shipped",
    "synonyms",
]

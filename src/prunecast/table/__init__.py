"""Tables of pruning results: read, checked, and in one canonical form."""

from prunecast.table.columns import CANONICAL, CONFIGURATION, METRICS, NAMES
from prunecast.table.errors import TableError
from prunecast.table.frame import Table
from prunecast.table.read import read

__all__ = ["CANONICAL", "CONFIGURATION", "METRICS", "NAMES", "Table", "TableError", "read"]

"""The exception for a table that cannot be used as it stands."""

from prunecast.errors import PrunecastError


class TableError(PrunecastError):
    """A table is refused; the message names the file, the row and the column, and what to do."""

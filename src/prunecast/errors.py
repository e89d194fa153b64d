"""The exceptions that a user can see; each message says what is wrong, where, and how to fix it."""


class PrunecastError(Exception):
    """Something that a user can fix; the command line prints the message and exits with status 2."""


class TableError(PrunecastError):
    """A table is refused; the message names the file, the row and the column, and what to do."""


class StoreError(PrunecastError):
    """The store cannot be written (full disk, read-only folder), so no chain can continue."""


class BusyError(PrunecastError):
    """Another process is working on a chain, so this one must wait or do something else."""


def sentence(problem: PrunecastError) -> str:
    """The message as a sentence, with a full stop at the end."""
    text = str(problem)
    return text if text.endswith((".", "?", "!")) else f"{text}."

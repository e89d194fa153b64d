"""The exceptions a user can meet; each message names the place and the remedy."""


class PrunecastError(Exception):
    """Something a user can mend; the command line prints it as one sentence and exits with 2."""


class StoreError(PrunecastError):
    """The store cannot be written (full disk, read-only folder), so no chain can go on."""


class BusyError(PrunecastError):
    """Another process is working on a chain, so this one must wait or do something else."""


def sentence(problem: PrunecastError) -> str:
    """What went wrong as a sentence for people: with a full stop, also where its last words were someone else's."""
    words = str(problem)
    return words if words.endswith((".", "?", "!")) else f"{words}."

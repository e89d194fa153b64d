"""The exceptions a user can meet; each message names the place and the remedy."""


class PrunecastError(Exception):
    """Something a user can mend; the command line prints it as one sentence and exits with 2."""

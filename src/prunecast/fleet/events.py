"""What a fleet tells while it runs."""

from dataclasses import dataclass

from prunecast.pruning import Record


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished level of a job."""

    number: int
    """The job's place in the list."""
    record: Record
    ended: str
    """Why the chain ended with this level; empty while it goes on."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A job that cannot go on; the others do. `problem` is a BusyError where another process has the chain."""

    number: int
    problem: Exception

"""What is said between whoever starts a team and its members."""

from dataclasses import dataclass
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning import StopRules
from prunecast.spec import ChainSpec

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A chain to be run to its end by a team."""

    spec: ChainSpec
    store: Path
    root: Path | None
    """Where the data lies."""
    rules: StopRules
    keep_weights: bool
    device: str
    """cpu, or cuda with the number of the first member's GPU."""
    size: int
    """Processes."""


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One member's place in a team."""

    task: Task
    rank: int
    port: int
    """Where the members find one another, on the loopback."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The chain is at its end, or another process holds it."""


@dataclass(frozen=True, kw_only=True)
class Raised:
    """A member raised; the others cannot go on without it."""

    problem: Exception
    traceback: str


class DiedError(PrunecastError):
    """A member was killed or crashed; the chain goes on from its last checkpoint when it is tried again."""

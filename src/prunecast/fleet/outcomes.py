"""What the threads of a fleet hand to its scheduler."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from torch import Tensor

from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.members import Member
from prunecast.fleet.shapes import halves
from prunecast.pruning import Trained

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A chain that is open, with its lock."""

    member: Member
    lock: ExitStack
    packable: bool


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A member's training, to be closed."""

    member: Member
    end: Trained
    rewind: Mapping[str, Tensor] | None = None
    """Its network at the rewind point, where it passed that."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a thread hands back: any of these."""

    opened: Sequence[Opened] = ()
    trained: Sequence[Closing] = ()
    apart: Sequence[list[Member]] = ()
    """Members to train again in other company."""
    following: Sequence[Member] = ()
    """Chains whose level is closed, with the next one."""
    events: Sequence[Finished | Failed] = ()
    left: Sequence[int] = ()
    """Jobs to be done by the plain loop when all others are done."""


def apart(members: list[Member], failure: Exception) -> Outcome:
    """Halves of a pack that failed, so that a guilty member is found; one alone is left to the plain loop."""
    LOG.warning("A pack of %d failed: %r", len(members), failure)
    if len(members) == 1:
        return Outcome(left=[members[0].number])
    return Outcome(apart=halves(members))

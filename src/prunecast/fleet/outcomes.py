"""What the threads of a fleet hand to its scheduler."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from torch import Tensor

from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.members import Group, Member, group_of, levels_left, work
from prunecast.fleet.shapes import halves
from prunecast.pruning import Trained
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)
LONG = 1_000
"""Steps that take longer than it takes to close a level."""
Team = tuple[object, ...]
"""Chains that train together at one level or another."""


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A member's training, to be closed."""

    member: Member
    end: Trained
    rewind: Mapping[str, Tensor] | None = None


@dataclass(frozen=True, kw_only=True)
class Opened:
    """A chain that is open, with its lock."""

    member: Member
    lock: ExitStack
    packable: bool


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a thread hands back."""

    trained: Sequence[Closing] = ()
    events: Sequence[Finished | Failed] = ()
    following: Sequence[Member] = ()
    apart: Sequence[list[Member]] = ()
    """Members to train again in other company."""
    left: Sequence[int] = ()
    """Jobs to be done by the plain loop when all others are done."""
    opened: Sequence[Opened] = ()


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Which levels go first: those of chains with the most work left."""

    team: Team
    steps: int
    """Of the level."""
    work: float
    """Along the longest of its chains, this level included."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A pack in training."""

    rank: Rank
    share: float
    """Its width over the budget."""


@dataclass(kw_only=True)
class Work:
    """What is being done: chains being opened, packs in training, levels being closed."""

    opening: dict[Future[Outcome], ChainSpec] = field(default_factory=dict)
    training: dict[Future[Outcome], Training] = field(default_factory=dict)
    closing: dict[Future[Outcome], Rank] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The budgets that packs in training add up to."""
        return sum(own.share for own in self.training.values())

    def leaves_room(self, own: Rank, at_once: int) -> bool:
        """Whether a level may start: fewer than `at_once` have more work left.

        That of a chain whose level is being closed goes on in a moment, so a long level does not take its place.
        """
        ahead = [other.rank.team for other in self.training.values() if other.rank.work >= own.work]
        if own.steps > LONG:
            ahead += {other.team for other in self.closing.values() if other.work > own.work}.difference(
                ahead
            )
        return len(ahead) < at_once

    def done(self) -> list[Outcome]:
        """What is finished; wait until something is. Where one raised, all stay here for whoever clears up."""
        every = (self.opening, self.training, self.closing)
        found, _ = wait([future for some in every for future in some], return_when=FIRST_COMPLETED)
        outcomes = [future.result() for future in found]
        for future in found:
            for some in every:
                some.pop(future, None)
        return outcomes

    def __bool__(self) -> bool:
        return bool(self.opening or self.training or self.closing)


def rank(members: Sequence[Member]) -> Rank:
    """The rank of members that train together."""
    group = group_of(members[0])
    steps = group.last - group.first
    left = steps * max(map(levels_left, members))
    return Rank(team=team(group), steps=steps, work=work(left, group.kind.depth))


def team(group: Group) -> Team:
    """What all levels of chains that train together share."""
    return group.kind, group.recipe, group.num_examples


def company(spec: ChainSpec) -> Team:
    """The team of a chain that is not open yet."""
    recipe = replace(spec.recipe, name="", checkpoint_steps=1)
    return spec.family, spec.depth, spec.dataset, recipe, spec.num_examples


def apart(members: list[Member], failure: Exception) -> Outcome:
    """Halves of a pack that failed, so that a guilty member is found; one alone is left to the plain loop."""
    LOG.warning("A pack of %d failed: %r", len(members), failure)
    if len(members) == 1:
        return Outcome(left=[members[0].number])
    return Outcome(apart=halves(members))

"""What the threads of a fleet hand to its scheduler."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace

from torch import Tensor

from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.members import Group, Member
from prunecast.fleet.shapes import halves
from prunecast.pruning import Trained
from prunecast.spec import ChainSpec

LOG = logging.getLogger(__name__)
Team = tuple[object, ...]
"""Chains that train together at one level or another."""


@dataclass(frozen=True, kw_only=True)
class Closing:
    """A member's training, to be closed."""

    member: Member
    end: Trained
    rewind: Mapping[str, Tensor] | None = None


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a thread hands back."""

    trained: Sequence[Closing] = ()
    events: Sequence[Finished | Failed] = ()
    following: Sequence[Member] = ()
    apart: Sequence[list[Member]] = ()
    """Members to train again in other company."""
    left: Sequence[Member] = ()
    """Members to be trained by the plain loop when all others are done."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A pack in training."""

    team: Team
    share: float
    """Its width over the budget."""


@dataclass(kw_only=True)
class Work:
    """What is being done: packs in training, and levels being closed by the team they belong to."""

    training: dict[Future[Outcome], Training] = field(default_factory=dict)
    closing: dict[Future[Outcome], Team] = field(default_factory=dict)

    @property
    def width(self) -> float:
        """The budgets that packs in training add up to."""
        return sum(own.share for own in self.training.values())

    def done(self, *, patient: bool) -> list[Outcome]:
        """What is finished; where `patient`, wait until something is."""
        futures = [*self.training, *self.closing]
        found, _ = wait(futures, None if patient else 0, return_when=FIRST_COMPLETED)
        for future in found:
            self.training.pop(future, None)
            self.closing.pop(future, None)
        return [future.result() for future in found]

    def __bool__(self) -> bool:
        return bool(self.training or self.closing)


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
        return Outcome(left=members)
    return Outcome(apart=halves(members))

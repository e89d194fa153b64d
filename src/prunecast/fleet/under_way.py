"""What the threads of a fleet are doing at the moment."""

from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field

from prunecast.fleet.outcomes import Outcome
from prunecast.fleet.ranks import Rank, Team

LONG = 1_000
"""Steps that take longer than it takes to close a level."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """A pack in training."""

    rank: Rank
    share: float
    """Its width over the budget."""


@dataclass(kw_only=True)
class UnderWay:
    """Chains being opened, packs in training, levels being closed."""

    opening: dict[Future[Outcome], Team] = field(default_factory=dict)
    training: dict[Future[Outcome], Training] = field(default_factory=dict)
    closing: dict[Future[Outcome], Rank] = field(default_factory=dict)

    @property
    def full_packs(self) -> float:
        """The budgets that packs in training add up to."""
        return sum(own.share for own in self.training.values())

    def leaves_room(self, own: Rank, at_once: int) -> bool:
        """Whether a level may start: fewer than `at_once` have more work left.

        That of a chain whose level is being closed goes on in a moment, so a long level does not take its place.
        """
        ahead = [other.rank.team for other in self.training.values() if other.rank.work >= own.work]
        if own.steps > LONG:
            about_to = {other.team for other in self.closing.values() if other.work > own.work}
            ahead += about_to.difference(ahead)
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


def well_done(futures: Iterable[Future[Outcome]]) -> Iterator[Outcome]:
    """The outcomes of threads that have ended without raising."""
    for future in futures:
        if not future.cancelled() and future.exception() is None:
            yield future.result()

"""The account of a running sweep: levels done, errors so far, and how long the rest will take."""

import math
from collections.abc import Sequence
from statistics import fmean

from prunecast.pruning import Record
from prunecast.sweep.cost import level_work
from prunecast.sweep.events import Event, Failed, LeftOut, Progress
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.look import Standing

Size = tuple[str, int, float, int, str]


class Board:
    """Counts what a sweep has done; it is told every event and asked at any time.

    A level that is still to do is expected to take as long as finished ones of its configuration, or, where
    there are none, as those of a configuration of about its size. A chain is expected to
    reach its level cap, or the mean level at which chains of this sweep have ended before theirs.
    """

    def __init__(self, standings: Sequence[Standing]) -> None:
        """Begin with what the store had already."""
        self._chains = {own.number: own.chain for own in standings}
        self._levels = {own.number: len(own.records) for own in standings}
        self._closed = {own.number for own in standings if own.ended or own.out}
        self._short = [len(own.records) for own in standings if own.ended and own.ended != "level cap"]
        self._sizes = {_size(own.chain): level_work(own.chain.spec, 1) for own in standings}
        self._seconds: dict[Size, list[float]] = {}
        self.failed: list[Failed] = []
        self.left_out: list[LeftOut] = []
        self.latest: dict[int, Progress] = {}
        self.trained = 0.0
        """Seconds of all levels finished since the beginning."""
        for own in standings:
            for record in own.records[:1] + own.records[-1:]:
                self._learn(own.chain, record)

    def take(self, event: Event) -> None:
        """Count one event."""
        if isinstance(event, Progress):
            self._levels[event.number] = max(self._levels[event.number], event.record.level + 1)
            self.latest.pop(event.number, None)
            self.latest[event.number] = event
            self.trained += event.record.seconds
            self._learn(event.chain, event.record)
            if event.ended == "level cap" and self._cap(event.number) >= self._levels[event.number]:
                return  # the unpruned level of a selection, which goes on afterwards
            if event.ended:
                self._close(event.number, event.ended)
        elif isinstance(event, Failed):
            self.failed.append(event)
            self._closed.add(event.number)
        elif isinstance(event, LeftOut):
            self.left_out.append(event)
            self._closed.add(event.number)

    def _close(self, number: int, why: str) -> None:
        self._closed.add(number)
        self.latest.pop(number, None)
        if why != "level cap":
            self._short.append(self._levels[number])

    def _cap(self, number: int) -> int:
        return self._chains[number].rules.level_cap

    def _learn(self, chain: PlannedChain, record: Record) -> None:
        self._seconds.setdefault(_size(chain), []).append(record.seconds)

    @property
    def chains(self) -> int:
        """Chains of the plan."""
        return len(self._chains)

    @property
    def chains_done(self) -> int:
        """Chains that have ended, failed or been left out."""
        return len(self._closed)

    @property
    def levels_done(self) -> int:
        """Trainings in the store."""
        return sum(self._levels.values())

    @property
    def levels_expected(self) -> int:
        """Trainings there will be, as far as one can tell."""
        open_chains = (number for number in self._chains if number not in self._closed)
        return self.levels_done + sum(map(self._left, open_chains))

    def _left(self, number: int) -> int:
        done, most = self._levels[number], self._cap(number) + 1
        likely = round(fmean(self._short)) if self._short else most
        return max(1, min(most, max(likely, 1)) - done)

    def seconds_left(self) -> float | None:
        """Seconds of training still to do, added up over chains; None as long as nothing is known."""
        if not self._seconds:
            return None
        expected = {size: self._expected(size, work) for size, work in self._sizes.items()}
        return sum(
            self._left(number) * expected[_size(chain)]
            for number, chain in self._chains.items()
            if number not in self._closed
        )

    def _expected(self, size: Size, work: float) -> float:
        """The mean of finished levels of this size, or of the size nearest to it in work, scaled.

        Small networks take longer than their multiply-adds say, so the time grows with their root only.
        """
        known = self._seconds.get(size)
        if known:
            return fmean(known)
        nearest = min(self._seconds, key=lambda other: abs(math.log(self._sizes[other] / work)))
        return fmean(self._seconds[nearest]) * math.sqrt(work / self._sizes[nearest])


def _size(chain: PlannedChain) -> Size:
    spec = chain.spec
    return spec.family, spec.depth, spec.width, spec.num_examples, spec.recipe.name

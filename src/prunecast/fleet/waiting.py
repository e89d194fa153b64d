"""Levels that wait for a stream, and which of them are trained next."""

from collections import deque
from collections.abc import Collection, Iterable

from prunecast.fleet.members import Group, Member, group_of
from prunecast.fleet.ranks import Rank, Team, rank_of
from prunecast.fleet.shapes import deal
from prunecast.fleet.under_way import UnderWay
from prunecast.fleet.yard import Yard


class Waiting:
    """Members that may be packed together, packs that are formed, and chains that train alone."""

    def __init__(self, yard: Yard, under_way: UnderWay) -> None:
        """Nobody waits yet."""
        self._yard, self._under_way = yard, under_way
        self._ready: dict[Group, list[Member]] = {}
        self._formed: deque[list[Member]] = deque()
        self._alone: deque[Member] = deque()

    def put(self, member: Member) -> None:
        """Let a level wait for others to be packed with."""
        self._ready.setdefault(group_of(member), []).append(member)

    def put_packs(self, packs: Iterable[list[Member]]) -> None:
        """Let packs wait that are formed already."""
        self._formed.extend(packs)

    def put_alone(self, member: Member, *, first: bool) -> None:
        """Let a chain wait that cannot be packed, or go first where its network is laid out already."""
        (self._alone.appendleft if first else self._alone.append)(member)

    def next_alone(self) -> Member | None:
        """The next chain that trains alone."""
        return self._alone.popleft() if self._alone else None

    def next_pack(self, at_once: int, coming: Collection[Team]) -> list[Member] | None:
        """The next pack, if one of `at_once` may start; chains of the teams `coming` are about to be opened."""
        if self._formed:
            room = self._under_way.leaves_room(rank_of(self._formed[0]), at_once)
        else:
            room = self._form(at_once, coming)
        return self._formed.popleft() if room else None

    def _form(self, at_once: int, coming: Collection[Team]) -> bool:
        """Deal the group with the most work left into packs, of those that need not wait for anybody."""
        ranks = {group: rank_of(members) for group, members in self._ready.items()}
        for group in sorted(ranks, key=lambda own: ranks[own].work, reverse=True):
            rank, members = ranks[group], self._ready[group]
            if rank.team in coming or not self._under_way.leaves_room(rank, at_once):
                continue
            budget = self._yard.budget(group.kind, members)
            if sum(member.width for member in members) >= self._enough(rank, budget):
                del self._ready[group]
                self._formed.extend(deal(members, budget))
                return True
        return False

    def _enough(self, rank: Rank, budget: float) -> float:
        """The width from which a group need not wait for others of its team: one full pack beats two."""
        if any(rank.team == own.team for own in self._under_way.closing.values()):
            return budget
        training = (own.rank.team for own in self._under_way.training.values())
        return budget / 2 if rank.team in training else 0.0

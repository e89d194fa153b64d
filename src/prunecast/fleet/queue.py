"""Which levels train next and together: chains are grouped, ranked by the work they have left, dealt into packs."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from prunecast.fleet.members import ChainJob, LevelGroup, Member, PackKind, group_of
from prunecast.spec import ChainSpec
from prunecast.training import timeline

BUDGET = 16.0
"""Widths added up in one pack, unless another size is found to be better on the device at hand."""
BUDGET_ON_CPU = 4.0
"""The same on a CPU, where a pack saves calls and nothing else."""
FEWEST_PACKS = 2
"""Packs at once at least: one trains while the levels of another end."""
LONG = 1_000
"""Steps that take longer than it takes to close a level."""

ChainGroup = tuple[object, ...]
"""What chains share that train together at one level or another."""
PackShape = tuple[float, ...]
"""The widths of a pack's slots, widest first, so that equal groups of channels fit the members."""


def chain_group(spec: ChainSpec) -> ChainGroup:
    """The group of a chain, which need not be open yet."""
    recipe = replace(spec.recipe, name="", checkpoint_steps=1)
    data = (spec.dataset, spec.loader, spec.image_size, spec.test_share, spec.split_seed, spec.num_examples)
    return spec.family, spec.depth, *data, recipe


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The priority of a level: levels of chains with the most work left go first."""

    group: ChainGroup
    steps: int
    """Of the level."""
    work: int
    """Along the longest of its chains, this level included."""
    widths: frozenset[float] = frozenset()
    """Of the networks, which matter where networks of different widths cannot share a pack."""


def rank_of(members: Sequence[Member]) -> Rank:
    """The rank of members that train together."""
    spec, steps = members[0].chain.spec, members[0].level.last - members[0].first
    # A level without steps, of a network that is trained already, is followed by levels that have some.
    left = (steps or members[0].chain.times.total) * max(map(levels_left, members))
    widths = frozenset(member.width for member in members)
    return Rank(group=chain_group(spec), steps=steps, work=weighted(left, spec.depth), widths=widths)


def weighted(steps: int, depth: int) -> int:
    """What steps count for where chains are compared: they take longer in deeper networks."""
    return steps * depth


def work_of_level(spec: ChainSpec) -> int:
    """What a whole level counts for."""
    return weighted(timeline(spec.recipe, spec.num_examples).total, spec.depth)


def levels_left(member: Member) -> int:
    """The most levels that a chain may still train."""
    return max(1, member.job.rules.level_cap - member.level.level + 1)


def deal(members: Sequence[Member], budget: float) -> list[list[Member]]:
    """Members in as few packs as the budget of widths allows, all alike, the first with the most of each width.

    What every pack holds is part of what the first holds, so one shape serves them all.
    """
    by_width = Counter(member.width for member in members)
    packs = math.ceil(sum(width * count for width, count in by_width.items()) / budget)
    dealt: list[list[Member]] = [[] for _ in range(min(packs, max(by_width.values(), default=1)) or 1)]
    for width in sorted(by_width, reverse=True):
        alike = [member for member in members if member.width == width]
        for place, member in enumerate(alike):
            dealt[place % len(dealt)].append(member)
    return [pack for pack in dealt if pack]


def shape_of(members: Sequence[Member]) -> PackShape:
    """The shape that just holds these members."""
    return tuple(sorted((member.width for member in members), reverse=True))


def fitting(known: Sequence[PackShape], members: Sequence[Member], widest: float) -> PackShape | None:
    """The narrowest known shape with a slot for everybody, if it is not wider than `widest`."""
    wanted = Counter(member.width for member in members)
    good = [shape for shape in known if not wanted - Counter(shape) and sum(shape) <= widest]
    return min(good, key=sum, default=None)


def places(shape: PackShape, members: Sequence[Member]) -> list[int]:
    """A slot of its own width for every member."""
    free = {width: [slot for slot, own in enumerate(shape) if own == width] for width in set(shape)}
    return [free[member.width].pop(0) for member in members]


def split(members: list[Member], suspects: Sequence[int]) -> list[list[Member]]:
    """The first to show numbers that are not finite, and the rest; halves if all showed them at once."""
    if len(suspects) == len(members):
        return halves(members)
    return [
        [member for place, member in enumerate(members) if (place in suspects) == suspected]
        for suspected in (True, False)
    ]


def halves(members: list[Member]) -> list[list[Member]]:
    """Two packs in place of one."""
    middle = len(members) // 2
    return [members[:middle], members[middle:]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """A pack in training."""

    rank: Rank
    share: float
    """Its width over the budget; 0 for a network that trains alone."""


@dataclass(kw_only=True)
class UnderWay:
    """What a fleet is doing at the moment."""

    opening: list[ChainGroup] = field(default_factory=list)
    training: list[Training] = field(default_factory=list)
    closing: list[Rank] = field(default_factory=list)

    @property
    def full_packs(self) -> float:
        """The budgets that packs in training add up to."""
        return sum(own.share for own in self.training)

    def leaves_room(self, own: Rank, at_once: int) -> bool:
        """Whether a level may start: fewer than `at_once` have more work left.

        A chain whose level is being closed goes on in a moment, so a long level does not take its place.
        """
        ahead = [other.rank.group for other in self.training if other.rank.work >= own.work]
        if own.steps > LONG:
            about_to = {other.group for other in self.closing if other.work > own.work}
            ahead += about_to.difference(ahead)
        return len(ahead) < at_once


class PackQueue:
    """Levels that wait: those that may be packed together, and packs that are formed already."""

    def __init__(
        self,
        budget: Callable[[PackKind, Sequence[Member]], float | None],
        under_way: UnderWay,
        mixes: Callable[[PackKind], bool] = lambda kind: True,
    ) -> None:
        """`budget` says how wide a pack may be; None says that networks of a kind train alone.

        `mixes` says whether networks of different widths may be in one.
        """
        self._budget, self._under_way, self._mixes = budget, under_way, mixes
        self._ready: dict[tuple[LevelGroup, float | None], list[Member]] = {}
        """Members that may share packs, by their group, and by their width where it may not be another."""
        self._formed: deque[list[Member]] = deque()

    def put(self, member: Member) -> None:
        """Let a level wait for others to be packed with."""
        group = group_of(member)
        width = None if self._mixes(group.kind) else member.width
        self._ready.setdefault((group, width), []).append(member)

    def put_packs(self, packs: Iterable[list[Member]]) -> None:
        """Let packs wait that are formed already; they go before all others."""
        self._formed.extend(packs)

    def put_back(self, members: list[Member]) -> None:
        """Let a pack that could not start be the next."""
        self._formed.appendleft(members)

    def next_pack(self, at_once: int, coming: Collection[ChainGroup]) -> list[Member] | None:
        """The next pack, if one of `at_once` may start; chains of the groups `coming` are about to be opened."""
        if self._formed:
            room = self._under_way.leaves_room(rank_of(self._formed[0]), at_once)
        else:
            room = self._form(at_once, coming)
        return self._formed.popleft() if room else None

    def _form(self, at_once: int, coming: Collection[ChainGroup]) -> bool:
        """Deal the group with the most work left into packs, of those that need not wait for anybody."""
        ranked = [(rank_of(members), *key, members) for key, members in self._ready.items()]
        for rank, group, width, members in sorted(ranked, key=lambda own: own[0].work, reverse=True):
            if not self._under_way.leaves_room(rank, at_once):
                continue
            budget, total = self._budget(group.kind, members), sum(own.width for own in members)
            if budget is None:
                self._formed.append([members.pop(0)])
            elif rank.group in coming or total < self._enough(rank, budget, width):
                continue
            else:
                self._formed.extend(deal(members, budget))
                members.clear()
            if not members:
                del self._ready[group, width]
            return True
        return False

    def _enough(self, rank: Rank, budget: float, width: float | None) -> float:
        """The widths that need not wait for other levels to share a pack with: one full pack beats two."""

        def joins(other: Rank) -> bool:
            return rank.group == other.group and (width is None or width in other.widths)

        if any(map(joins, self._under_way.closing)):
            return budget
        return budget / 2 if any(joins(own.rank) for own in self._under_way.training) else 0.0


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What a chain adds to the work of its group."""

    group: int
    """Its number: groups themselves take long to compare, and this is done whenever something has ended."""
    work: int
    """Of one level."""
    width: float


class Remaining:
    """Levels that every chain may still train, and how many packs should train at once so that all end soonest."""

    def __init__(self, jobs: Iterable[tuple[int, ChainJob]]) -> None:
        """All of them, to start with."""
        self._levels: dict[int, int] = {}
        self._parts: dict[int, _Part] = {}
        self._groups: dict[ChainGroup, int] = {}
        self._unmixed = set[int]()
        for number, job in jobs:
            own = self._groups.setdefault(chain_group(job.spec), len(self._groups))
            self._levels[number] = job.rules.level_cap + 1
            self._parts[number] = _Part(group=own, work=work_of_level(job.spec), width=job.spec.width)

    def keep_widths_apart(self, group: ChainGroup) -> None:
        """Count a pack for every width of a group, because networks of different widths cannot share one."""
        self._unmixed.add(self._groups[group])

    def finish(self, number: int) -> None:
        """Count a level as done."""
        self._levels[number] -= 1

    def end(self, number: int) -> None:
        """Count a chain as done."""
        self._levels[number] = 0

    def packs_at_once(self, budget: float, most: int) -> int:
        """As many as keep up with the longest chain: others beside it would only slow it down, and it ends last."""
        longest: defaultdict[tuple[int, float | None], int] = defaultdict(int)
        widths: defaultdict[tuple[int, float | None], float] = defaultdict(float)
        for number, levels in self._levels.items():
            if levels > 0:
                own = self._parts[number]
                sharing = own.group, own.width if own.group in self._unmixed else None
                longest[sharing] = max(longest[sharing], levels * own.work)
                widths[sharing] += own.width
        if not longest:
            return min(most, FEWEST_PACKS)
        total = sum(longest[own] * math.ceil(widths[own] / max(budget, own[1] or 0.0)) for own in longest)
        return min(most, max(FEWEST_PACKS, math.ceil(total / max(longest.values()))))

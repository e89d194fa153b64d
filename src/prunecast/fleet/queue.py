"""The queue of waiting levels: which train together, in which order, and how they are divided into packs."""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from prunecast.fleet.members import ChainJob, LevelGroup, Member, PackKind, group_of
from prunecast.spec import ChainSpec
from prunecast.training import timeline

BUDGET = 16.0
"""The total width of a pack on a GPU, unless another size is measured to be faster on this device."""
BUDGET_ON_CPU = 4.0
"""The total width of a pack on a CPU, where packs only save calls."""
FEWEST_PACKS = 2
"""The least number of packs at once: one trains while the levels of another end."""
LONG = 1_000
"""A level of more steps than this takes longer than closing another level."""

ChainGroup = tuple[object, ...]
"""What chains have in common that may ever train together."""
PackShape = tuple[float, ...]
"""The widths of a pack's slots, widest first, so that groups of equal size fit the members."""


def chain_group(spec: ChainSpec) -> ChainGroup:
    """The group of a chain; it need not be open."""
    recipe = replace(spec.recipe, name="", checkpoint_steps=1)
    data = (spec.dataset, spec.loader, spec.image_size, spec.test_share, spec.split_seed, spec.num_examples)
    return spec.family, spec.depth, *data, recipe


@dataclass(frozen=True, kw_only=True)
class Rank:
    """The priority of a level: levels of chains with the most work left go first."""

    group: ChainGroup
    steps: int
    """Steps of the level."""
    work: int
    """Work left in the longest of its chains, this level included."""
    widths: frozenset[float] = frozenset()
    """Widths of the networks; they matter if networks of different widths cannot share a pack."""


def rank_of(members: Sequence[Member]) -> Rank:
    """The rank of members that train together."""
    spec, steps = members[0].chain.spec, members[0].level.last - members[0].first
    # A level without steps, of a network that is trained already, is followed by levels that have some.
    left = (steps or members[0].chain.times.total) * max(map(levels_left, members))
    widths = frozenset(member.width for member in members)
    return Rank(group=chain_group(spec), steps=steps, work=weighted(left, spec.depth), widths=widths)


def weighted(steps: int, depth: int) -> int:
    """The work of some steps, by which chains are compared: steps of deeper networks take longer."""
    return steps * depth


def work_of_level(spec: ChainSpec) -> int:
    """The work of a whole level."""
    return weighted(timeline(spec.recipe, spec.num_examples).total, spec.depth)


def levels_left(member: Member) -> int:
    """The maximum number of levels that a chain still trains."""
    return max(1, member.job.rules.level_cap - member.level.level + 1)


def deal(members: Sequence[Member], budget: float) -> list[list[Member]]:
    """Divide members into as few packs as the budget of widths allows.

    Each width is divided evenly, and the first packs get the rest. So the shape of the first pack fits all others.
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
    """The smallest shape that holds these members."""
    return tuple(sorted((member.width for member in members), reverse=True))


def fitting(known: Sequence[PackShape], members: Sequence[Member], widest: float) -> PackShape | None:
    """The narrowest known shape with a slot for every member; None if all are wider than `widest`."""
    wanted = Counter(member.width for member in members)
    good = [shape for shape in known if not wanted - Counter(shape) and sum(shape) <= widest]
    return min(good, key=sum, default=None)


def slots_by_width(shape: PackShape, members: Sequence[Member]) -> list[int]:
    """A slot for each member, of the member's width."""
    free = {width: [slot for slot, own in enumerate(shape) if own == width] for width in set(shape)}
    return [free[member.width].pop(0) for member in members]


def split(members: list[Member], suspects: Sequence[int]) -> list[list[Member]]:
    """Divide a pack into the suspects, at these positions, and the rest; into halves if all are suspects."""
    if len(suspects) == len(members):
        return halves(members)
    return [
        [member for place, member in enumerate(members) if (place in suspects) == suspected]
        for suspected in (True, False)
    ]


def halves(members: list[Member]) -> list[list[Member]]:
    """Divide a pack into two."""
    middle = len(members) // 2
    return [members[:middle], members[middle:]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """A pack in training."""

    rank: Rank
    share: float
    """Its width divided by the budget; 0 for a network that trains alone."""


@dataclass(kw_only=True)
class InProgress:
    """The chains that are being opened, and the levels that are being trained or closed."""

    opening: list[ChainGroup] = field(default_factory=list)
    training: list[Training] = field(default_factory=list)
    closing: list[Rank] = field(default_factory=list)

    @property
    def full_packs(self) -> float:
        """The total width of the packs in training, in budgets."""
        return sum(own.share for own in self.training)

    def leaves_room(self, own: Rank, at_once: int) -> bool:
        """Whether a level may start: fewer than `at_once` others have at least as much work left.

        A chain whose level is being closed will go on soon, so it counts as one of them before a long level.
        """
        ahead = [other.rank.group for other in self.training if other.rank.work >= own.work]
        if own.steps > LONG:
            about_to = {other.group for other in self.closing if other.work > own.work}
            ahead += about_to.difference(ahead)
        return len(ahead) < at_once


class PackQueue:
    """Waiting levels: those that are not in a pack yet, and packs that wait to start."""

    def __init__(
        self,
        budget: Callable[[PackKind, Sequence[Member]], float | None],
        in_progress: InProgress,
        mixes: Callable[[PackKind], bool] = lambda kind: True,
    ) -> None:
        """`budget` returns the largest total width of a pack, or None if networks of the kind train alone.

        `mixes` returns whether networks of different widths may share a pack.
        """
        self._budget, self._in_progress, self._mixes = budget, in_progress, mixes
        self._ready: dict[tuple[LevelGroup, float | None], list[Member]] = {}
        """Members that may share packs: by group, and also by width if different widths cannot share a pack."""
        self._formed: deque[list[Member]] = deque()

    def put(self, member: Member) -> None:
        """Add a level, which will be packed with others."""
        group = group_of(member)
        width = None if self._mixes(group.kind) else member.width
        self._ready.setdefault((group, width), []).append(member)

    def put_packs(self, packs: Iterable[list[Member]]) -> None:
        """Add packs that are formed already; they start before all others."""
        self._formed.extend(packs)

    def put_back(self, members: list[Member]) -> None:
        """Put a pack that could not start at the front."""
        self._formed.appendleft(members)

    def next_pack(self, at_once: int, coming: Collection[ChainGroup]) -> list[Member] | None:
        """The next pack, or None if none may start. Chains of the groups `coming` will be opened soon."""
        if self._formed:
            room = self._in_progress.leaves_room(rank_of(self._formed[0]), at_once)
        else:
            room = self._form(at_once, coming)
        return self._formed.popleft() if room else None

    def _form(self, at_once: int, coming: Collection[ChainGroup]) -> bool:
        """Form packs of the group with the most work left, among groups that need not wait for more members."""
        ranked = [(rank_of(members), *key, members) for key, members in self._ready.items()]
        for rank, group, width, members in sorted(ranked, key=lambda own: own[0].work, reverse=True):
            if not self._in_progress.leaves_room(rank, at_once):
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
        """The total width from which a group does not wait for more members: one full pack is faster than two."""

        def joins(other: Rank) -> bool:
            return rank.group == other.group and (width is None or width in other.widths)

        if any(map(joins, self._in_progress.closing)):
            return budget
        return budget / 2 if any(joins(own.rank) for own in self._in_progress.training) else 0.0


@dataclass(frozen=True, kw_only=True)
class _Part:
    """A chain's part of the work of its group."""

    group: int
    """The group's number: comparing groups takes long, and this is done whenever something has ended."""
    work: int
    """Work of one level."""
    width: float


class RemainingWork:
    """The levels that each chain may still train, and how many packs should train at once to end soonest."""

    def __init__(self, jobs: Iterable[tuple[int, ChainJob]]) -> None:
        """Start with all levels of all chains."""
        self._levels: dict[int, int] = {}
        self._parts: dict[int, _Part] = {}
        self._groups: dict[ChainGroup, int] = {}
        self._unmixed = set[int]()
        for number, job in jobs:
            own = self._groups.setdefault(chain_group(job.spec), len(self._groups))
            self._levels[number] = job.rules.level_cap + 1
            self._parts[number] = _Part(group=own, work=work_of_level(job.spec), width=job.spec.width)

    def keep_widths_apart(self, group: ChainGroup) -> None:
        """Count the packs of a group width by width, because networks of different widths cannot share one."""
        self._unmixed.add(self._groups[group])

    def finish(self, number: int) -> None:
        """Count a level as done."""
        self._levels[number] -= 1

    def end(self, number: int) -> None:
        """Count a chain as done."""
        self._levels[number] = 0

    def packs_at_once(self, budget: float, most: int) -> int:
        """The fewest packs with which all other chains end together with the longest; more would only slow it down."""
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

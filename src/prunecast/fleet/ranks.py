"""Which chains train together, how much work they have left, and so which of them go first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prunecast.fleet.members import Member
from prunecast.spec import ChainSpec
from prunecast.training import timeline

Team = tuple[object, ...]
"""What chains share that train together at one level or another."""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """Where levels stand in the order: those of chains with the most work left go first."""

    team: Team
    steps: int
    """Of the level."""
    work: int
    """Along the longest of its chains, this level included."""


def team_of(spec: ChainSpec) -> Team:
    """The team of a chain, which need not be open yet."""
    recipe = replace(spec.recipe, name="", checkpoint_steps=1)
    data = (spec.dataset, spec.loader, spec.image_size, spec.num_examples)
    return spec.family, spec.depth, *data, recipe


def rank_of(members: Sequence[Member]) -> Rank:
    """The rank of members that train together."""
    spec, steps = members[0].chain.spec, members[0].level.last - members[0].first
    left = steps * max(map(levels_left, members))
    return Rank(team=team_of(spec), steps=steps, work=work(left, spec.depth))


def work(steps: int, depth: int) -> int:
    """What steps count for where chains are compared: they take longer in deeper networks."""
    return steps * depth


def work_of_level(spec: ChainSpec) -> int:
    """What a whole level counts for."""
    return work(timeline(spec.recipe, spec.num_examples).total, spec.depth)


def levels_left(member: Member) -> int:
    """The most levels that a chain may still train."""
    return max(1, member.job.rules.level_cap - member.level.level + 1)

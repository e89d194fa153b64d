"""What is left to do, and how many packs should train at once so that the last chain ends soonest."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from prunecast.fleet.ranks import Team, team_of, work_of_level
from prunecast.pruning import StopRules
from prunecast.spec import ChainSpec

LEAST = 2
"""Packs at once at least: one trains while the levels of another end."""


class Planned(Protocol):
    """A chain that is to be run: a fleet's job, or what a plan has of it."""

    @property
    def spec(self) -> ChainSpec: ...  # noqa: D102
    @property
    def rules(self) -> StopRules: ...  # noqa: D102


@dataclass(frozen=True, kw_only=True)
class _Share:
    """What a chain adds to the work of its team."""

    team: int
    """Its number: teams themselves take long to compare, and this is done whenever something has ended."""
    work: int
    """Of one level."""
    width: float


class Remaining:
    """Levels that every chain may still train."""

    def __init__(self, jobs: Iterable[tuple[int, Planned]]) -> None:
        """All of them, to start with."""
        self._levels: dict[int, int] = {}
        self._shares: dict[int, _Share] = {}
        teams: dict[Team, int] = {}
        for number, job in jobs:
            own = teams.setdefault(team_of(job.spec), len(teams))
            self._levels[number] = job.rules.level_cap + 1
            self._shares[number] = _Share(team=own, work=work_of_level(job.spec), width=job.spec.width)

    def finish(self, number: int) -> None:
        """Count a level as done."""
        self._levels[number] -= 1

    def end(self, number: int) -> None:
        """Count a chain as done."""
        self._levels[number] = 0

    def packs_at_once(self, budget: float, most: int) -> int:
        """As many as keep up with the longest chain: others beside it would only slow it down, and it ends last."""
        longest: defaultdict[int, int] = defaultdict(int)
        widths: defaultdict[int, float] = defaultdict(float)
        for number, levels in self._levels.items():
            if levels > 0:
                own = self._shares[number]
                longest[own.team] = max(longest[own.team], levels * own.work)
                widths[own.team] += own.width
        if not longest:
            return min(most, LEAST)
        total = sum(longest[own] * math.ceil(widths[own] / budget) for own in longest)
        return min(most, max(LEAST, math.ceil(total / max(longest.values()))))

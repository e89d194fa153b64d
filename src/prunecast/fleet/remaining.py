"""What is left to do, and how many packs should train at once so that the last chain ends soonest."""

import math
from collections import defaultdict
from collections.abc import Iterable

from prunecast.fleet.members import Job
from prunecast.fleet.outcomes import Team, company
from prunecast.training import timeline

LEAST = 2
"""Packs at once at least: one trains while the levels of another end."""


class Remaining:
    """Levels that every chain may still train."""

    def __init__(self, jobs: Iterable[tuple[int, Job]]) -> None:
        """All of them, to start with."""
        self._jobs = dict(jobs)
        self._levels = {number: job.rules.level_cap + 1 for number, job in self._jobs.items()}

    def finish(self, number: int) -> None:
        """Count a level as done."""
        self._levels[number] -= 1

    def end(self, number: int) -> None:
        """Count a chain as done."""
        self._levels[number] = 0

    def packs_at_once(self, budget: float, most: int) -> int:
        """As many as keep up with the longest chain: others beside it would only slow it down, and it ends last."""
        work: defaultdict[Team, int] = defaultdict(int)
        widths: defaultdict[Team, float] = defaultdict(float)
        for number, levels in self._levels.items():
            if levels > 0:
                spec = self._jobs[number].spec
                own = company(spec)
                steps = levels * timeline(spec.recipe, spec.num_examples).total
                work[own] = max(work[own], steps * spec.depth)
                widths[own] += spec.width
        if not work:
            return LEAST
        total = sum(work[own] * math.ceil(widths[own] / budget) for own in work)
        return min(most, max(LEAST, math.ceil(total / max(work.values()))))

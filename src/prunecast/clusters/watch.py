"""What a driver tells of chains that work elsewhere: every level once, as the store shows it or a worker says.

The store outlives every worker, so a level that was finished a moment before a death is told all the same;
what a worker says when it ends need not wait until a slow file system shows it here.
"""

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.pruning import chain_folder, why_ended, within
from prunecast.sweep.deaths import NEVER, Written, written
from prunecast.sweep.events import Job, Outcome, Progress
from prunecast.sweep.run import unfinished


class Watch:
    """Remembers how many levels of each chain in work were told; nothing of chains that are done with."""

    def __init__(self, store: Path) -> None:
        """Watch chains of one store."""
        self._store = store
        self._told: dict[int, int] = {}
        self._seen: dict[int, Written] = {}

    def begin(self, job: Job) -> Job:
        """Watch a chain; return its job with all levels that were told."""
        self._told.setdefault(job.number, job.done)
        return dataclasses.replace(job, done=self._told[job.number])

    def forget(self, job: Job) -> None:
        """The chain is done with."""
        self._told.pop(job.number, None)
        self._seen.pop(job.number, None)

    def news(self, job: Job) -> Iterator[Progress]:
        """The levels that the store has and nobody told."""
        folder = chain_folder(self._store, job.chain.spec)
        now = written(folder.path / "records.json")
        if now == self._seen.get(job.number, NEVER):
            return
        try:
            records = within(folder.records(), job.chain.rules)
        except PrunecastError:  # whoever runs it will say what is wrong with it
            return
        self._seen[job.number] = now
        for count in range(self._told[job.number], len(records)):
            self._told[job.number] = count + 1
            ended = why_ended(records[: count + 1], job.chain.rules)
            yield Progress(number=job.number, chain=job.chain, record=records[count], ended=ended)

    def new(self, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
        """What a worker says, less the levels that were told."""
        for outcome in outcomes:
            if isinstance(outcome, Progress):
                if outcome.record.level < self._told[outcome.number]:
                    continue
                self._told[outcome.number] = outcome.record.level + 1
            yield outcome

    def left(self, jobs: Iterable[Job]) -> list[Job]:
        """Those of these chains that are not at their end in the store."""
        return [self.begin(job) for job in unfinished([(job.number, job.chain) for job in jobs], self._store)]

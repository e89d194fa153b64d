"""The door of a fleet: chains are locked, read and opened one after the other, while others train."""

import logging
from contextlib import ExitStack
from pathlib import Path

from prunecast.errors import StoreError
from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.gates import MODULES
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Job, kind_of
from prunecast.fleet.noise import draws_noise
from prunecast.fleet.open_close import Opener, open_member
from prunecast.fleet.outcomes import Opened, Outcome
from prunecast.fleet.yard import Yard
from prunecast.pruning import Chain, chain_folder, understand, why_ended, within

LOG = logging.getLogger(__name__)


class Door:
    """Opens chains; one thread at a time may use it."""

    def __init__(self, store: Path, yard: Yard, opener: Opener) -> None:
        """Nothing is opened yet."""
        self._store, self._yard, self._opener = store, yard, opener
        self._refused: set[str] = set()

    def open(self, number: int, job: Job) -> Outcome:
        """Open a chain and tell what is stored of it; a chain that cannot be opened has failed."""
        try:
            with ExitStack() as lock:
                return self._opened(number, job, lock)
        except StoreError:
            raise
        except Exception as problem:
            return Outcome(events=[Failed(number=number, problem=problem)])

    def _opened(self, number: int, job: Job, lock: ExitStack) -> Outcome:
        folder = chain_folder(self._store, job.spec)
        records = folder.records()
        if not why_ended(records, job.rules) or folder.stale(len(records)):
            lock.enter_context(folder.locked())
            records = folder.records()
            folder.tidy(len(records))
        shown = within(records, job.rules)
        events = [
            Finished(number=number, record=record, ended=why_ended(shown[:count], job.rules))
            for count, record in enumerate(shown, 1)
        ]
        if why_ended(records, job.rules):
            return Outcome(events=events)
        with MODULES.shared():
            chain = self._opener(job.spec, self._store, job.dataset())
        if chain.dataset.train.streams or chain.dataset.test.streams:
            return Outcome(events=events, left=[number])
        with MODULES.alone():
            understand(chain.untrained)
            packable = self._packable(chain)
            noisy = not packable and draws_noise(chain.untrained, chain.dataset.train.image_shape)
        if noisy:
            return Outcome(events=events, left=[number])
        member = open_member(number, job, chain, records)
        opened = Opened(member=member, lock=lock.pop_all(), packable=packable)
        return Outcome(events=events, opened=[opened])

    def _packable(self, chain: Chain) -> bool:
        try:
            self._yard.check(kind_of(chain), chain)
        except Unpackable as reason:
            if chain.spec.family not in self._refused:
                LOG.warning("%s trains alone: %s", chain.spec.family, reason)
                self._refused.add(chain.spec.family)
            return False
        return True

"""The ends of a level on the host: chains opened, levels stored and pruned, the next ones opened."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from prunecast.data import Dataset
from prunecast.fleet.checkpoints import store_rewind
from prunecast.fleet.events import Finished
from prunecast.fleet.gates import MODULES
from prunecast.fleet.members import Job, Member
from prunecast.pruning import Chain, Record, Trained, close_level, open_level, read_checkpoint, why_ended
from prunecast.spec import ChainSpec

Opener = Callable[[ChainSpec, Path, Dataset], Chain]


def open_member(number: int, job: Job, chain: Chain, records: Sequence[Record]) -> Member:
    """A chain with its next level."""
    with MODULES.shared():
        level = open_level(chain, records)
    begun = read_checkpoint(chain, level)
    return Member(number=number, job=job, chain=chain, records=tuple(records), level=level, checkpoint=begun)


def close(
    member: Member, trained: Trained, rewind: Mapping[str, Tensor] | None
) -> tuple[Finished, Member | None]:
    """Store a finished level, and open the next one unless the chain has ended."""
    chain, level, job = member.chain, member.level, member.job
    if rewind is not None:
        store_rewind(member, rewind)
    with MODULES.shared():
        record = close_level(chain, member.records, level, trained, keep_weights=job.keep_weights)
    records = (*member.records, record)
    ended = why_ended(records, job.rules)
    finished = Finished(number=member.number, record=record, ended=ended)
    return finished, None if ended else open_member(member.number, job, chain, records)

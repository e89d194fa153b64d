"""Work on chains in host threads: lock and open them, store finished levels, prune, open the next levels."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from prunecast.data import Dataset
from prunecast.fleet.level import store_rewind
from prunecast.fleet.members import ChainJob, LevelFinished, Member
from prunecast.pruning import (
    Chain,
    Record,
    Trained,
    chain_folder,
    close_level,
    open_level,
    read_checkpoint,
    slicing_of,
    trace_ahead,
    why_ended,
    within,
)
from prunecast.spec import MODULE_CALLS, TORCH_GENERATOR, ChainSpec

Opener = Callable[[ChainSpec, Path, Dataset], Chain]


@dataclass(frozen=True, kw_only=True)
class TakenChain:
    """A chain as it is in the store; it is locked if a level is left to train."""

    records: tuple[Record, ...]
    finished: tuple[LevelFinished, ...]
    """Its finished levels, as events."""
    ended: bool
    lock: ExitStack


def take_chain(number: int, job: ChainJob, store: Path) -> TakenChain:
    """Read a chain's finished levels, and lock it unless it has ended."""
    with ExitStack() as lock:
        records = lock.enter_context(chain_folder(store, job.spec).taken(job.rules))
        shown = within(records, job.rules)
        finished = tuple(
            LevelFinished(number=number, record=record, ended=why_ended(shown[:count], job.rules))
            for count, record in enumerate(shown, 1)
        )
        ended = bool(why_ended(records, job.rules))
        return TakenChain(
            records=tuple(records),
            finished=finished,
            ended=ended,
            lock=ExitStack() if ended else lock.pop_all(),
        )
    raise AssertionError("an exit stack suppresses nothing")


def open_member(number: int, job: ChainJob, chain: Chain, records: Sequence[Record]) -> Member:
    """A chain with its next level."""
    level = open_level(chain, records)
    begun = read_checkpoint(chain, level)
    return Member(
        number=number,
        job=job,
        chain=chain,
        records=tuple(records),
        level=level,
        checkpoint=begun,
        slicing=slicing_of(chain, level),
    )


def open_taken(
    number: int, job: ChainJob, store: Path, dataset: Dataset, taken: TakenChain, opener: Opener
) -> Member:
    """Build a chain's network, read its graph, and open its next level."""
    chain = opener(job.spec, store, dataset)
    trace_ahead(chain.untrained)
    return open_member(number, job, chain, taken.records)


def close_member(
    member: Member, trained: Trained, rewind: Mapping[str, Tensor] | None
) -> tuple[LevelFinished, Member | None]:
    """Store a finished level, and open the next one unless the chain has ended."""
    chain, level, job = member.chain, member.level, member.job
    if rewind is not None:
        store_rewind(member, rewind)
    record = close_level(chain, member.records, level, trained, keep_weights=job.keep_weights)
    records = (*member.records, record)
    ended = why_ended(records, job.rules)
    finished = LevelFinished(number=member.number, record=record, ended=ended)
    return finished, None if ended else open_member(member.number, job, chain, records)


@torch.no_grad()
def draws_noise(model: nn.Module, image_shape: Sequence[int]) -> bool:
    """Whether a network draws random numbers of its own, as dropout does: run a copy and see if the generator moved.

    Its numbers would depend on what else trains in this process, so the plain loop trains it, as it does a network that
    cannot be run here.
    """
    trial = copy.deepcopy(model).train()
    images = torch.zeros(2, *image_shape, dtype=next(model.parameters()).dtype)
    with MODULE_CALLS, TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        try:
            trial(images)
        except Exception:
            return True
        return not torch.equal(before, torch.get_rng_state())

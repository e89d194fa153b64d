"""Work of host threads: lock and open chains, arrange their tensors for packs, store trained levels, prune.

Nothing here uses the device.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from prunecast.data import Dataset
from prunecast.fleet.members import ChainJob, LevelFinished, Member
from prunecast.fleet.pack import Contents, PackLayout
from prunecast.fleet.slots import SlotAdapter
from prunecast.pruning import (
    Chain,
    Checkpoint,
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
    write_checkpoint,
    write_packed,
)
from prunecast.spec import MODULE_CALLS, TORCH_GENERATOR, ChainSpec
from prunecast.training import COUNT, State

Networks = list[dict[str, Tensor]]
Opener = Callable[[ChainSpec, Path, Dataset], Chain]


@dataclass(frozen=True, kw_only=True)
class TakenChain:
    """A chain as the store has it; it is locked unless it has ended."""

    records: tuple[Record, ...]
    finished: tuple[LevelFinished, ...]
    """An event for each finished level."""
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
    """Open the next level of a chain."""
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
    """Build a chain's network, trace it, and open its next level."""
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
    """Whether a network draws random numbers, as dropout does: run a copy and see if torch's generator has moved.

    In a fleet, these numbers would depend on the other networks of the process, so the plain loop trains such
    networks, and also those that cannot be run here.
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


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Members of a pack and their slots: members[i] is in slot slots[i]."""

    layout: PackLayout
    members: Sequence[Member]
    slots: Sequence[int]
    adapters: Sequence[SlotAdapter | None]
    """For each member that has lost channels, what converts between its network and its slot; None for the others."""

    def each(self) -> Iterator[tuple[Member, int, SlotAdapter | None]]:
        """Every member with its slot and its adapter."""
        return zip(self.members, self.slots, self.adapters, strict=True)


def start_contents(placement: Placement) -> Contents:
    """The packed tensors at the start of the members' levels, or at their checkpoints."""
    found = {}
    for member, slot, adapter in placement.each():
        start = member.checkpoint.state if member.checkpoint else member.level
        network, masks = start.network, member.level.masks
        if adapter is not None:
            state = adapter.to_slot(State(network=network, optimizer_state={}))
            network, masks = state.network, adapter.masks(masks)
        if placement.layout.whole:  # non-persistent buffers come from the untrained network
            network = {**dict(member.chain.untrained.named_buffers()), **network}
        found[slot] = (network, masks)
    return placement.layout.contents(found)


def optimizer_contents(placement: Placement) -> dict[str, list[Tensor]]:
    """The packed optimizer state of the members' checkpoints."""
    layout, names = placement.layout, placement.layout.parameters
    packed: dict[str, dict[str, Tensor]] = {}
    counts: dict[str, list[Tensor]] = {}
    for member, slot, adapter in placement.each():
        if member.checkpoint is None:
            continue
        state = member.checkpoint.state
        kept = (adapter.to_slot(state) if adapter else state).optimizer_state
        positions = _positions(member)
        for kind in {key.partition("/")[0] for key in kept}:
            if kind == COUNT:  # the same for all, because they have done the same steps
                counts[kind] = [kept[f"{COUNT}/0"]]
                continue
            if kind not in packed:
                packed[kind] = {name: layout.empty(name) for name in names}
            layout.write(packed[kind], slot, {name: kept[f"{kind}/{positions[name]}"] for name in names})
    return {kind: [tensors[name] for name in names] for kind, tensors in packed.items()} | counts


def own_networks(placement: Placement, tensors: Mapping[str, Tensor], batch_counts: Networks) -> Networks:
    """The state dict of each member's whole network, cut out of the packed tensors."""
    found = []
    for (member, slot, adapter), counts in zip(placement.each(), batch_counts, strict=True):
        network = placement.layout.read(tensors, slot) | counts
        network = {name: network[name] for name in member.level.network}
        if adapter is not None:
            network = adapter.from_slot(State(network=network, optimizer_state={})).network
        found.append(network)
    return found


def are_finite(networks: Networks) -> list[bool]:
    """For each network, whether all its values are finite."""
    return [all(bool(torch.isfinite(tensor).all()) for tensor in network.values()) for network in networks]


def write_checkpoints(
    placement: Placement,
    optimizer_state: Mapping[str, Sequence[Tensor]],
    networks: Networks,
    rewinds: Networks | None,
    step: int,
    seconds: float,
) -> None:
    """Store checkpoints of the members in the plain loop's format, so that a fleet or the plain loop can continue."""
    layout, names = placement.layout, placement.layout.parameters
    for position, (member, slot, adapter) in enumerate(placement.each()):
        if rewinds is not None:
            store_rewind(member, rewinds[position])
        positions = _positions(member)
        state: dict[str, Tensor] = {}
        for kind, tensors in optimizer_state.items():
            if kind != COUNT:
                part = layout.read(dict(zip(names, tensors, strict=True)), slot)
                state |= {f"{kind}/{positions[name]}": tensor for name, tensor in part.items()}
            else:
                state |= {f"{kind}/{number}": tensor for number, tensor in enumerate(tensors)}
        if adapter is not None:
            state = adapter.from_slot(State(network={}, optimizer_state=state)).optimizer_state
        saved = State(network=networks[position], optimizer_state=state)
        checkpoint = Checkpoint(step=step, seconds=seconds + member.seconds, state=saved)
        write_checkpoint(member.chain, member.level, checkpoint)


def store_rewind(member: Member, network: Mapping[str, Tensor]) -> None:
    """Store the network at the rewind point, if this is level 0 of a method with weight rewinding."""
    chain, level = member.chain, member.level
    if level.level == 0 and chain.spec.method.retraining == "weight-rewinding":
        write_packed(chain.folder.rewind, network, level.masks, 0)


def _positions(member: Member) -> dict[str, int]:
    """The position of each parameter in the member's network; checkpoints number the optimizer state by it."""
    return {name: place for place, (name, _) in enumerate(member.chain.untrained.named_parameters())}

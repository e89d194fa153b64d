"""The trainings in progress of a pack, kept as the plain loop keeps its own, so that either goes on with them."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from prunecast.fleet.bench import PackBench
from prunecast.fleet.members import Member
from prunecast.pruning import Checkpoint, write_checkpoint, write_packed
from prunecast.training import State

Networks = list[dict[str, Tensor]]


def networks_of(
    bench: PackBench,
    tensors: Mapping[str, Tensor],
    members: Sequence[Member],
    places: Sequence[int],
    steps: int,
) -> Networks:
    """The members' networks as they are alone, on the host, after `steps` steps in this pack."""
    pack = bench.pack
    host = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    found = []
    for member, slot in zip(members, places, strict=True):
        counters = {name: count + steps for name, count in (pack.guests[slot] or {}).items()}
        own = pack.read(host, slot) | counters
        found.append({name: own[name] for name in member.level.network})
    return found


@torch.no_grad()
def remember(bench: PackBench, members: Sequence[Member], places: Sequence[int]) -> None:
    """Give the optimizer the memory that the members' checkpoints hold."""
    for member, slot in zip(members, places, strict=True):
        if member.checkpoint is None:
            continue
        kept, positions = member.checkpoint.state.optimizer_state, _positions(member)
        for kind, tensors in _by_name(bench):
            bench.pack.write(tensors, slot, {name: kept[f"{kind}/{positions[name]}"] for name in tensors})
        if "count" in bench.optimizer_state:  # the same for all, because they have done the same steps
            bench.optimizer_state["count"][0].copy_(kept["count/0"])


def save(
    bench: PackBench,
    members: Sequence[Member],
    places: Sequence[int],
    step: int,
    seconds: float,
    rewinds: Networks | None,
) -> None:
    """Store where every member stands, unless a number is no longer finite, which the end of the level will tell."""
    if not bool(torch.isfinite(bench.losses).all()):
        return
    networks = networks_of(bench, bench.pack.tensors(), members, places, step - members[0].first)
    memories = [
        (kind, {name: own.cpu() for name, own in tensors.items()}) for kind, tensors in _by_name(bench)
    ]
    count = {"count/0": bench.optimizer_state["count"][0].cpu()} if "count" in bench.optimizer_state else {}
    for place, (member, slot) in enumerate(zip(members, places, strict=True)):
        if rewinds is not None:
            store_rewind(member, rewinds[place])
        positions = _positions(member)
        slots = {
            f"{kind}/{positions[name]}": tensor
            for kind, tensors in memories
            for name, tensor in bench.pack.read(tensors, slot).items()
        }
        state = State(network=networks[place], optimizer_state=slots | count)
        write_checkpoint(
            member.chain, member.level, Checkpoint(step=step, seconds=seconds + member.seconds, state=state)
        )


def store_rewind(member: Member, network: Mapping[str, Tensor]) -> None:
    """Store the network at the rewind point, where the level has one and the method goes back to it."""
    chain, level = member.chain, member.level
    if level.level == 0 and chain.spec.method.retraining == "weight-rewinding":
        write_packed(chain.folder.rewind, network, level.masks, 0)


def _by_name(bench: PackBench) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """The optimizer's packed tensors by the parameters they belong to."""
    names = list(bench.pack.masks)
    for kind, tensors in bench.optimizer_state.items():
        if len(tensors) == len(names):
            yield kind, dict(zip(names, tensors, strict=True))


def _positions(member: Member) -> dict[str, int]:
    """The places of the parameters in the member's own network, by which its checkpoint names them."""
    return {name: place for place, (name, _) in enumerate(member.chain.untrained.named_parameters())}

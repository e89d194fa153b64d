"""One level of all members of a pack: from their starts to their ends, or to the news that one diverged."""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import torch

from prunecast.fleet.bench import PackBench
from prunecast.fleet.checkpoints import Networks, networks_of, remember
from prunecast.fleet.course import Course
from prunecast.fleet.evaluate import examine
from prunecast.fleet.members import Member
from prunecast.fleet.runner import Runner, reset
from prunecast.pruning import Trained, device_name
from prunecast.training import stretches


@dataclass(frozen=True, kw_only=True)
class Spoilt:
    """A pack in which a number stopped being finite: everything in it is worthless."""

    suspects: tuple[int, ...]
    """The members, by their place, that were the first to show it."""
    networks: Networks
    steps: int | None
    """Steps of the level up to where the plain loop would have noticed; None where that is after the last."""
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The ends of a level for all members of a pack."""

    trained: list[Trained]
    rewinds: Networks | None
    """The networks at the rewind point, where some member is at level 0."""


def train_level(
    runner: Runner,
    members: Sequence[Member],
    places: Sequence[int],
    ahead: Executor,
    stop: threading.Event,
    *,
    checkpoint_seconds: float = math.inf,
) -> Ends | Spoilt:
    """Train one level; members[i] lies in slot places[i].

    Every `checkpoint_seconds`, and when it is told to stop, it stores where the members stand.
    """
    began = time.perf_counter()
    steps = members[0].level.last - members[0].first
    with runner.current():
        _begin(runner.bench, members, places)
        rewinds = Course(runner, members, places, ahead, stop, checkpoint_seconds).run()
        bench = runner.bench  # not held before: where faster steps take over, the first one is let go
        healthy = bench.healthy.tolist()
        counts = [healthy[slot] for slot in places]
        networks = networks_of(bench, bench.pack.tensors(), members, places, steps)
        suspects = _suspects(counts, networks, steps)
        scores = [] if suspects else examine(runner, members, places)
        bench.pack.wipe()
    overflown = tuple(place for place, own in enumerate(scores) if not math.isfinite(own["test"].loss))
    seconds = (time.perf_counter() - began) / len(members)
    if suspects or (overflown and len(members) > 1):
        noticed = _noticed(members[0], min(counts))
        return Spoilt(suspects=suspects or overflown, networks=networks, steps=noticed, seconds=seconds)
    device = device_name(bench.cursor.device)
    trained = [
        Trained(
            network=network,
            diverged=False,
            test=own["test"],
            train=own["examples"],
            validation=own.get("validation"),
            seconds=seconds + member.seconds,
            device=device,
        )
        for member, network, own in zip(members, networks, scores, strict=True)
    ]
    return Ends(trained=trained, rewinds=rewinds)


def _begin(bench: PackBench, members: Sequence[Member], places: Sequence[int]) -> None:
    """Lay the members into their slots, as their levels or their checkpoints begin."""
    for member, slot in zip(members, places, strict=True):
        start = member.checkpoint.state if member.checkpoint else member.level
        bench.pack.load(slot, start.network, member.level.masks)
    reset(bench)
    remember(bench, members, places)


def diverged(spoilt: Spoilt, member: Member, device: torch.device) -> Trained:
    """The end of a training that lost its numbers with nobody else to blame."""
    return Trained(
        network=spoilt.networks[0],
        diverged=True,
        test=None,
        train=None,
        validation=None,
        seconds=spoilt.seconds + member.seconds,
        device=device_name(device),
        steps=spoilt.steps,
    )


def _noticed(member: Member, healthy: int) -> int | None:
    """Steps of the level up to the end of the stretch in which a loss stopped being finite."""
    level, bad = member.level, member.first + healthy
    ends = (end for _, end in stretches(member.chain.times, member.first, level.last) if end > bad)
    return next((end - level.first for end in ends), None)


def _suspects(counts: Sequence[int], networks: Networks, steps: int) -> tuple[int, ...]:
    """Who lost finite losses first, or at the very end finite weights; nobody as a rule."""
    if min(counts) < steps:
        return tuple(place for place, count in enumerate(counts) if count == min(counts))
    finite = [all(bool(torch.isfinite(tensor).all()) for tensor in own.values()) for own in networks]
    return tuple(place for place, good in enumerate(finite) if not good)

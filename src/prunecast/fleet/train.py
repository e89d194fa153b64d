"""One level of all members of a pack: from their starts to their ends, or to the news that one diverged."""

import math
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from prunecast.data import Source
from prunecast.fleet.bench import join
from prunecast.fleet.host import HOST
from prunecast.fleet.members import EpochData, Member, draw_members
from prunecast.fleet.runner import WAITING, Runner, renew, reset, to_device
from prunecast.pruning import Chain, Trained
from prunecast.pruning.chain import device_name
from prunecast.training import Score, learning_rate, stretches
from prunecast.training.precision import autocast

Networks = list[dict[str, Tensor]]
IMAGES_AT_ONCE = 32_768


class Stopped(Exception):  # noqa: N818 - nothing broke
    """The fleet was told to stop in the middle of a level."""


@dataclass(frozen=True, kw_only=True)
class Spoilt:
    """A pack in which a number stopped being finite: everything in it is worthless."""

    suspects: tuple[int, ...]
    """The members, by their place, that were the first to show it."""
    networks: Networks


@dataclass(frozen=True, kw_only=True)
class Ends:
    """The ends of a level for all members of a pack."""

    trained: list[Trained]
    rewinds: Networks | None
    """The networks at the rewind point, where some member is at level 0."""


def train_level(
    runner: Runner, members: Sequence[Member], places: Sequence[int], ahead: Executor, stop: threading.Event
) -> Ends | Spoilt:
    """Train one level; members[i] lies in slot places[i]."""
    began = time.perf_counter()
    pack, first = runner.bench.pack, members[0]
    with runner.current():
        for member, slot in zip(members, places, strict=True):
            pack.load(slot, member.level.network, member.level.masks)
        reset(runner.bench)
        rewinds = _steps(runner, members, places, ahead, stop)
        counts = runner.bench.healthy.tolist()
        networks = _networks(runner, pack.tensors(), members, places, first.level.last - first.level.first)
        suspects = _suspects(
            [counts[slot] for slot in places], networks, first.level.last - first.level.first
        )
        scores = [] if suspects else _examine(runner, members, places)
        pack.wipe()
    overflown = tuple(place for place, own in enumerate(scores) if not math.isfinite(own["test"].loss))
    if suspects or (overflown and len(members) > 1):
        return Spoilt(suspects=suspects or overflown, networks=networks)
    seconds = (time.perf_counter() - began) / len(members)
    device = device_name(runner.bench.cursor.device)
    trained = [
        Trained(
            network=network,
            diverged=False,
            test=own["test"],
            train=own["examples"],
            validation=own.get("validation"),
            seconds=seconds,
            device=device,
        )
        for network, own in zip(networks, scores, strict=True)
    ]
    return Ends(trained=trained, rewinds=rewinds)


def diverged(spoilt: Spoilt, device: torch.device, seconds: float) -> Trained:
    """The end of a training that lost its numbers with nobody else to blame."""
    return Trained(
        network=spoilt.networks[0],
        diverged=True,
        test=None,
        train=None,
        validation=None,
        seconds=seconds,
        device=device_name(device),
    )


def _steps(
    runner: Runner, members: Sequence[Member], places: Sequence[int], ahead: Executor, stop: threading.Event
) -> Networks | None:
    """All steps of the level; the next epoch is drawn while the present one is trained."""
    level, times = members[0].level, members[0].chain.times
    of_slots: list[Chain | None] = [None] * runner.bench.pack.slots
    for member, slot in zip(members, places, strict=True):
        of_slots[slot] = member.chain
    saving = any(member.level.level == 0 for member in members)
    snapshot: dict[str, Tensor] | None = None
    parts = list(stretches(times, level.first, level.last))
    drawn: deque[Future[EpochData]] = deque()
    pace = _Pace(runner, stop)
    for number, (begin, end) in enumerate(parts):
        while len(drawn) < 2 and number + len(drawn) < len(parts):
            epoch = parts[number + len(drawn)][0] // times.epoch
            drawn.append(ahead.submit(draw_members, of_slots, epoch))
        if begin == times.rewind and saving:
            snapshot = {name: tensor.detach().clone() for name, tensor in runner.bench.pack.tensors().items()}
        _load_epoch(runner, drawn.popleft().result(), members[0].chain, begin)
        if not pace.advance(end - begin):
            break
    pace.finish()
    if snapshot is None:
        return None
    return _networks(runner, snapshot, members, places, times.rewind)


class _Pace:
    """Keeps the host a little ahead of the device, and looks whether the losses are still finite."""

    def __init__(self, runner: Runner, stop: threading.Event) -> None:
        self._runner, self._stop = runner, stop
        self._marks: deque[tuple[torch.cuda.Event | None, Tensor]] = deque()

    def advance(self, steps: int) -> bool:
        """Do so many steps; False once a loss was found that is not finite."""
        healthy = True
        while steps and healthy:
            now = min(steps, WAITING)
            self._runner.advance(now)
            steps -= now
            losses = self._runner.bench.losses
            seen = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=losses.is_cuda)
            seen.copy_(losses, non_blocking=True)
            self._marks.append((self._runner.mark(), seen))
            healthy = self._wait(2)
        return healthy

    def finish(self) -> None:
        """Wait for everything."""
        self._wait(0)

    def _wait(self, left: int) -> bool:
        healthy = True
        while len(self._marks) > left:
            mark, seen = self._marks.popleft()
            if mark is not None:
                mark.synchronize()
            if self._stop.is_set():
                raise Stopped
            healthy = healthy and bool(torch.isfinite(seen).all())
        return healthy


@torch.no_grad()
def _load_epoch(runner: Runner, epoch: EpochData, chain: Chain, begin: int) -> None:
    bench, device, times = runner.bench, runner.bench.cursor.device, chain.times
    count = epoch.order.shape[1]
    bench.order[:, :count].copy_(to_device(epoch.order, device))
    if bench.draws is not None and epoch.draws is not None:
        for name in ("flip", "shift", "crop"):
            if (values := getattr(epoch.draws, name)) is not None:
                getattr(bench.draws, name)[:, :count].copy_(to_device(values, device))
    start = begin // times.epoch * times.epoch
    rates = [learning_rate(chain.spec.recipe, times, step) for step in range(start, start + times.epoch)]
    bench.rates[: times.epoch].copy_(to_device(torch.tensor(rates, dtype=bench.rates.dtype), device))
    bench.cursor.fill_(begin % times.epoch)


def _networks(
    runner: Runner,
    tensors: Mapping[str, Tensor],
    members: Sequence[Member],
    places: Sequence[int],
    steps: int,
) -> Networks:
    """The members' networks as they are alone, on the host, after `steps` steps in this pack."""
    pack = runner.bench.pack
    host = {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    found = []
    for member, slot in zip(members, places, strict=True):
        counters = {name: count + steps for name, count in (pack.guests[slot] or {}).items()}
        own = pack.read(host, slot) | counters
        found.append({name: own[name] for name in member.level.network})
    return found


def _suspects(counts: Sequence[int], networks: Networks, steps: int) -> tuple[int, ...]:
    """Who lost finite losses first, or at the very end finite weights; nobody as a rule."""
    if min(counts) < steps:
        return tuple(place for place, count in enumerate(counts) if count == min(counts))
    finite = [all(bool(torch.isfinite(tensor).all()) for tensor in own.values()) for own in networks]
    return tuple(place for place, good in enumerate(finite) if not good)


def _examine(runner: Runner, members: Sequence[Member], places: Sequence[int]) -> list[dict[str, Score]]:
    """Every member's scores on the test half, on its own examples, and on those it holds out."""
    renew(runner.bench)
    chains = [member.chain for member in members]
    test = evaluate_pack(runner, chains[0].dataset.test, np.arange(len(chains[0].dataset.test)))
    parts = [{"test": test[slot]} for slot in places]
    for name in ("examples", "validation"):
        own = [getattr(chain, name) for chain in chains]
        if len(own[0]) == 0:
            continue
        indices = np.zeros((runner.bench.pack.slots, len(own[0])), dtype=np.int64)
        for slot, chosen in zip(places, own, strict=True):
            indices[slot] = chosen
        scores = evaluate_pack(runner, chains[0].dataset.train, indices)
        for part, slot in zip(parts, places, strict=True):
            part[name] = scores[slot]
    return parts


@torch.no_grad()
def evaluate_pack(runner: Runner, source: Source, indices: NDArray[np.int64]) -> list[Score]:
    """Every slot's score, on examples that all share (count) or on each one's own (slots, count)."""
    bench, pack = runner.bench, runner.bench.pack
    device = bench.cursor.device
    wrong = torch.zeros(pack.slots, dtype=torch.int64, device=device)
    loss = torch.zeros(pack.slots, dtype=torch.float64, device=device)
    chosen = to_device(torch.from_numpy(indices), device)
    size = max(100, min(1000, IMAGES_AT_ONCE // pack.slots))
    for part in torch.split(chosen, size, dim=-1):
        with HOST.shared():
            pack.module.eval()
            own = part.expand(pack.slots, -1)
            images = source.batch(part.flatten(), None).view(-1, part.shape[-1], *source.image_shape)
            images = images.expand(pack.slots, *images.shape[1:])
            with autocast(bench.recipe.precision, device):
                scores = pack.module(join(images, pack.inputs.size, bench.dtype)).float()
            pack.module.train()
        labels = source.labels[own].t()
        wrong += (scores.argmax(2) != labels).sum(0)
        rows = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), reduction="none")
        loss += rows.view(labels.shape).double().sum(0)
    count = indices.shape[-1]
    return [
        Score(error=bad / count, loss=total / count)
        for bad, total in zip(wrong.tolist(), loss.tolist(), strict=True)
    ]

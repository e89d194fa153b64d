"""One level of all members of a pack: from their starts to their ends, or to the news that one diverged."""

import math
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import torch
from torch import Tensor

from prunecast.fleet.checkpoints import Networks, networks_of, remember, save
from prunecast.fleet.evaluate import examine
from prunecast.fleet.loads import Load, loads, put
from prunecast.fleet.members import EpochData, Member, draw_epochs
from prunecast.fleet.runner import WAITING, Runner, reset
from prunecast.pruning import Chain, Trained
from prunecast.pruning.chain import device_name
from prunecast.training import stretches


class Stopped(Exception):  # noqa: N818 - nothing broke
    """The fleet was told to stop in the middle of a level."""


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
        for member, slot in zip(members, places, strict=True):
            start = member.checkpoint.state if member.checkpoint else member.level
            runner.bench.pack.load(slot, start.network, member.level.masks)
        reset(runner.bench)
        remember(runner.bench, members, places)
        course = _Course(runner, members, places, ahead, _Pace(runner, stop), checkpoint_seconds)
        rewinds = course.run()
        counts = runner.bench.healthy.tolist()
        pack = runner.bench.pack
        networks = networks_of(runner.bench, pack.tensors(), members, places, steps)
        suspects = _suspects([counts[slot] for slot in places], networks, steps)
        scores = [] if suspects else examine(runner, members, places)
        pack.wipe()
    overflown = tuple(place for place, own in enumerate(scores) if not math.isfinite(own["test"].loss))
    seconds = (time.perf_counter() - began) / len(members)
    if suspects or (overflown and len(members) > 1):
        noticed = _noticed(members[0], min(counts[slot] for slot in places))
        return Spoilt(suspects=suspects or overflown, networks=networks, steps=noticed, seconds=seconds)
    device = device_name(runner.bench.cursor.device)
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


class _Course:
    """All steps of a level; the next epochs are drawn while the present ones are trained."""

    def __init__(
        self,
        runner: Runner,
        members: Sequence[Member],
        places: Sequence[int],
        ahead: Executor,
        pace: "_Pace",
        checkpoint_seconds: float,
    ) -> None:
        self._runner, self._members, self._places = runner, members, places
        self._ahead, self._pace, self._patience = ahead, pace, checkpoint_seconds
        self._began = self._saved = time.perf_counter()
        self._times = members[0].chain.times
        self._snapshot: dict[str, Tensor] | None = None

    def run(self) -> Networks | None:
        """Train; return the networks at the rewind point, where some member passes it at level 0."""
        saving = any(member.level.level == 0 for member in self._members)
        rows = loads(
            self._times,
            self._members[0].first,
            self._members[0].level.last,
            room=len(self._runner.bench.rates),
            cut=self._times.rewind if saving else None,
        )
        for load, epochs in zip(rows, self._drawn(rows), strict=True):
            if load.begin == self._times.rewind and saving:
                tensors = self._runner.bench.pack.tensors()
                self._snapshot = {name: tensor.detach().clone() for name, tensor in tensors.items()}
            put(self._runner, epochs, self._members[0].chain, load)
            if not self._advance(load):
                break
        self._pace.finish()
        return self._rewinds()

    def _drawn(self, rows: Sequence[Load]) -> Iterator[EpochData]:
        of_slots: list[Chain | None] = [None] * self._runner.bench.pack.slots
        for member, slot in zip(self._members, self._places, strict=True):
            of_slots[slot] = member.chain
        drawn: deque[Future[EpochData]] = deque()
        for number in range(len(rows)):
            while len(drawn) < 2 and number + len(drawn) < len(rows):
                drawn.append(self._ahead.submit(draw_epochs, of_slots, rows[number + len(drawn)].epochs))
            yield drawn.popleft().result()

    def _advance(self, load: Load) -> bool:
        try:
            healthy = self._pace.advance(load.end - load.begin)
        except Stopped:
            self._save(load.start + int(self._runner.bench.cursor))
            raise
        if healthy and load.end < self._members[0].level.last and self._due():
            self._save(load.end)
        return healthy

    def _due(self) -> bool:
        return time.perf_counter() - self._saved > self._patience

    def _save(self, step: int) -> None:
        seconds = (time.perf_counter() - self._began) / len(self._members)
        save(self._runner.bench, self._members, self._places, step, seconds, self._rewinds())
        self._saved = time.perf_counter()

    def _rewinds(self) -> Networks | None:
        if self._snapshot is None:
            return None
        steps = self._times.rewind - self._members[0].first
        return networks_of(self._runner.bench, self._snapshot, self._members, self._places, steps)


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
            self._runner.upgrade()
            self._runner.advance(now)
            steps -= now
            losses = self._runner.bench.losses
            seen = torch.empty(losses.shape, dtype=losses.dtype, pin_memory=losses.is_cuda)
            seen.copy_(losses, non_blocking=True)
            self._marks.append((self._runner.mark(), seen))
            healthy = self._wait(2)
        return healthy

    def finish(self) -> None:
        """Wait for everything; who is told to stop now is at the end already."""
        self._wait(0, stopping=False)

    def _wait(self, left: int, *, stopping: bool = True) -> bool:
        healthy = True
        while len(self._marks) > left:
            mark, seen = self._marks.popleft()
            if mark is not None:
                mark.synchronize()
            if stopping and self._stop.is_set():
                raise Stopped
            healthy = healthy and bool(torch.isfinite(seen).all())
        return healthy


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

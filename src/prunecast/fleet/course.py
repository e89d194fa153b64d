"""All steps of a level of a pack: examples drawn ahead, the host a little ahead of the device, checkpoints."""

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future

import torch
from torch import Tensor

from prunecast.fleet.checkpoints import Networks, networks_of, save
from prunecast.fleet.loads import Load, loads, put
from prunecast.fleet.members import EpochData, Member, draw_epochs
from prunecast.fleet.pack import Pack
from prunecast.fleet.runner import WAITING, Runner
from prunecast.pruning import Chain


class Stopped(Exception):  # noqa: N818 - nothing broke
    """The fleet was told to stop in the middle of a level."""


class Course:
    """All steps of a level; the next epochs are drawn while the present ones are trained."""

    def __init__(
        self,
        runner: Runner,
        members: Sequence[Member],
        places: Sequence[int],
        ahead: Executor,
        stop: threading.Event,
        checkpoint_seconds: float,
    ) -> None:
        """The members lie in their slots already; examples are drawn by `ahead`."""
        self._runner, self._members, self._places = runner, members, places
        self._ahead, self._pace, self._patience = ahead, Pace(runner, stop), checkpoint_seconds
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
                self._snapshot = _copied(self._runner.bench.pack)
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


def _copied(pack: Pack) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in pack.tensors().items()}


class Pace:
    """Keeps the host a little ahead of the device, and looks whether the losses are still finite."""

    def __init__(self, runner: Runner, stop: threading.Event) -> None:
        """Nothing is under way."""
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

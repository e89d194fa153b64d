"""A pool of processes: each takes the next chains when it has finished its own, and may die at any time."""

import contextlib
import dataclasses
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType

import torch

from prunecast.errors import PrunecastError
from prunecast.sweep.cost import chain_work
from prunecast.sweep.deaths import TRIES, Deaths, Footprint, footprints
from prunecast.sweep.events import Failed, Job, Outcome, Progress, Share
from prunecast.sweep.failures import write_failure
from prunecast.sweep.fleets import in_a_fleet
from prunecast.sweep.work import Loaded, one_by_one, torch_device

GRACE = 30.0
"""Seconds that fleets have to store where their chains stand when they are told to stop."""
PRELOADED = ["prunecast.sweep.processes"]


@dataclass(frozen=True, kw_only=True)
class _Free:
    """A worker has finished its share, well or not, and waits for the next."""


@dataclass(kw_only=True)
class _Worker:
    """A process at the other end of a pipe, its device, and the chains it works on."""

    process: BaseProcess
    pipe: Connection
    device: str
    share: Share = ()
    left: Share = ()
    """Those of its chains that have not ended or failed, as far as it has told."""
    before: tuple[Footprint, ...] = ()
    """Where its chains stood when it got them."""


def processes(
    jobs: Sequence[Job],
    store: Path,
    *,
    devices: Sequence[str] = ("cpu", "cpu"),
    packed: bool = False,
) -> Iterator[Outcome]:
    """Run jobs in a process for each of the devices, the longest first, one chain at a time.

    Where they are `packed`, every process runs a fleet of a fair share of the chains. Processes are forked
    from a server that has imported torch once. A process that dies takes nothing with it but levels in
    progress: another goes on with its chains.
    """
    longest_first = sorted(jobs, key=lambda job: -chain_work(job.chain, job.done))
    size = len(devices) if packed else len(jobs)
    shares = [tuple(longest_first[first::size]) for first in range(min(size, len(jobs)))]
    pool = _Pool(shares, store, packed)
    try:
        yield from pool.run(devices[: len(shares)])
    finally:
        pool.close()


class _Pool:
    """The driver's side: which worker has which chains, and what is still to do."""

    def __init__(self, shares: Sequence[Share], store: Path, packed: bool) -> None:
        self._waiting, self._store, self._packed = deque(shares), store, packed
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._workers: list[_Worker] = []
        self._deaths = Deaths(store)

    def run(self, devices: Sequence[str]) -> Iterator[Outcome]:
        self._workers = [self._started(device) for device in devices]
        while any(worker.share for worker in self._workers):
            pipes = {worker.pipe: worker for worker in self._workers if worker.share}
            for pipe in wait(list(pipes)):
                assert isinstance(pipe, Connection)
                yield from self._hear(pipes[pipe])

    def _started(self, device: str) -> _Worker:
        here, there = self._context.Pipe()
        arguments = (there, self._store, device, self._packed)
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        process.start()
        there.close()
        worker = _Worker(process=process, pipe=here, device=device)
        self._give(worker)
        return worker

    def _give(self, worker: _Worker) -> None:
        worker.share = worker.left = self._waiting.popleft() if self._waiting else ()
        worker.before = footprints(worker.share, self._store)
        if worker.share:
            # A worker that has just died is noticed when it is listened to.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                worker.pipe.send(worker.share)

    def _hear(self, worker: _Worker) -> Iterator[Outcome]:
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):  # the latter where it died in the middle of a message
            yield from self._replace(worker)
            return
        if isinstance(message, Exception):
            raise message
        if isinstance(message, _Free):
            self._give(worker)
        else:
            worker.left = _without(worker.left, message)
            yield message

    def _replace(self, worker: _Worker) -> Iterator[Outcome]:
        """Start another process in place of a dead one; its chains come next, but not for ever."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        if worker.left:
            then = self._deaths.after(worker.share, worker.before, worker.left)
            self._waiting.extendleft(reversed(then.again))
            if then.lost:
                yield self._given_up(then.lost, worker.process.exitcode)
        self._workers.append(self._started(worker.device))
        for idle in (own for own in self._workers if not own.share):
            self._give(idle)

    def _given_up(self, job: Job, exitcode: int | None) -> Failed:
        how = died(exitcode)
        write_failure(self._store, job.chain.spec, how, "")
        return Failed(number=job.number, chain=job.chain, error=how, traceback="")

    def close(self) -> None:
        """Stop every process: a chain alone goes on from its last checkpoint, a fleet stores one for all of its own."""
        until = time.monotonic() + GRACE
        for worker in self._workers:
            (worker.process.terminate if self._packed else worker.process.kill)()
        for worker in self._workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()


def died(exitcode: int | None) -> str:
    """Why a process ended, in words."""
    often = f"{TRIES} times without a new level or checkpoint"
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; is there enough memory for so many at once?" if name == "SIGKILL" else ""
        return f"the process of this chain was ended by {name} {often}{hint}"
    return f"the process of this chain ended with exit code {exitcode} {often}"


def _without(left: Share, outcome: Outcome) -> Share:
    """The chains that are left after this was told; levels that were told are not told by whoever goes on."""
    if not isinstance(outcome, Progress) or outcome.ended:
        return tuple(job for job in left if job.number != outcome.number)
    done = outcome.record.level + 1
    return tuple(dataclasses.replace(job, done=done) if job.number == outcome.number else job for job in left)


def _serve(pipe: Connection, store: Path, device: str, packed: bool) -> None:
    """The worker's side: chains in, what happens out, until the driver hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then stops its workers
    signal.signal(signal.SIGTERM, _leave if packed else signal.SIG_DFL)
    torch.set_num_threads(1)
    shares: queue.SimpleQueue[Share] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, shares), daemon=True).start()
    loaded: Loaded = {}
    run = in_a_fleet if packed else one_by_one
    try:
        while True:
            for outcome in run(shares.get(), store, torch_device(device), loaded):
                pipe.send(outcome)
            pipe.send(_Free())
    except BrokenPipeError:  # the driver is gone
        return
    except PrunecastError as problem:  # a store that cannot be written, or a device that is not there
        pipe.send(type(problem)(*problem.args))


def _leave(number: int, _: FrameType | None) -> None:
    """Let a fleet store where its chains stand; the signal may come once more, from whoever else stops it."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit


def _listen(pipe: Connection, shares: "queue.SimpleQueue[Share]") -> None:
    """Pass chains on; when the driver is gone, however it went, so is the worker."""
    while True:
        try:
            shares.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)

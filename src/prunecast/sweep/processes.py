"""A pool of processes: each takes the next chain when it has finished one, and may die at any time."""

import contextlib
import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from prunecast.errors import StoreError
from prunecast.sweep.cost import chain_work
from prunecast.sweep.events import Failed, Job, Outcome
from prunecast.sweep.failures import write_failure
from prunecast.sweep.work import Loaded, torch_device, work

TRIES = 2
"""How often a chain whose process dies is tried before it counts as failed."""
PRELOADED = ["prunecast.sweep.work"]


@dataclass(frozen=True, kw_only=True)
class _Free:
    """A worker has finished its chain, well or not, and waits for the next."""


@dataclass(kw_only=True)
class _Worker:
    """A process at the other end of a pipe, and the chain it works on."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None


def processes(
    jobs: Sequence[Job], store: Path, *, count: int, device: str = "cpu", start: str = "forkserver"
) -> Iterator[Outcome]:
    """Run jobs in `count` processes, the longest first, each on one chain at a time.

    Processes are forked from a server that has imported torch once. A process that dies takes nothing with
    it but the level in progress: another goes on with its chain.
    """
    longest_first = sorted(jobs, key=lambda job: -chain_work(job.chain, job.done))
    pool = _Pool(longest_first, store, device, _context(start))
    try:
        yield from pool.run(min(count, len(jobs)))
    finally:
        pool.close()


def _context(start: str) -> Any:
    context = multiprocessing.get_context(start)
    if start == "forkserver":
        context.set_forkserver_preload(PRELOADED)
    return context


class _Pool:
    """The driver's side: which worker has which chain, and what is still to do."""

    def __init__(self, jobs: Sequence[Job], store: Path, device: str, context: Any) -> None:
        self._waiting, self._store, self._device, self._context = deque(jobs), store, device, context
        self._workers: list[_Worker] = []
        self._deaths: dict[int, int] = {}

    def run(self, count: int) -> Iterator[Outcome]:
        self._workers = [self._started() for _ in range(count)]
        while any(worker.job for worker in self._workers):
            pipes = {worker.pipe: worker for worker in self._workers if worker.job}
            for pipe in wait(list(pipes)):
                assert isinstance(pipe, Connection)
                yield from self._hear(pipes[pipe])

    def _started(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there, self._store, self._device), daemon=True)
        process.start()
        there.close()
        worker = _Worker(process=process, pipe=here)
        self._give(worker)
        return worker

    def _give(self, worker: _Worker) -> None:
        worker.job = self._waiting.popleft() if self._waiting else None
        if worker.job:
            # A worker that has just died is noticed when it is listened to.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                worker.pipe.send(worker.job)

    def _hear(self, worker: _Worker) -> Iterator[Outcome]:
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            yield from self._replace(worker)
            return
        if isinstance(message, StoreError):
            raise message
        if isinstance(message, _Free):
            self._give(worker)
        else:
            yield message

    def _replace(self, worker: _Worker) -> Iterator[Outcome]:
        """Start another process in place of a dead one; its chain comes next, but not for ever."""
        worker.process.join()
        worker.pipe.close()
        self._workers.remove(worker)
        assert worker.job is not None
        job, number = worker.job, worker.job.number
        self._deaths[number] = self._deaths.get(number, 0) + 1
        if self._deaths[number] < TRIES:
            self._waiting.appendleft(job)
        else:
            how = died(worker.process.exitcode)
            write_failure(self._store, job.chain.spec, how, "")
            yield Failed(number=number, chain=job.chain, error=how, traceback="")
        self._workers.append(self._started())

    def close(self) -> None:
        """Stop every process at once: a store bears that, and only levels in progress are lost."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()


def died(exitcode: int | None) -> str:
    """Why a process ended, in words."""
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        hint = "; is there enough memory for so many at once?" if name == "SIGKILL" else ""
        return f"the process of this chain was ended by {name} {TRIES} times{hint}"
    return f"the process of this chain ended with exit code {exitcode} {TRIES} times"


def _serve(pipe: Connection, store: Path, device: str) -> None:
    """The worker's side: chains in, what happens out, until the driver hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then stops its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, jobs), daemon=True).start()
    loaded: Loaded = {}
    while True:
        job = jobs.get()
        try:
            for outcome in work(job, store, torch_device(device), loaded):
                pipe.send(outcome)
            pipe.send(_Free())
        except StoreError as problem:
            pipe.send(StoreError(*problem.args))
            return
        except BrokenPipeError:  # the driver is gone
            return


def _listen(pipe: Connection, jobs: "queue.SimpleQueue[Job]") -> None:
    """Pass chains on; when the driver is gone, however it went, so is the worker."""
    while True:
        try:
            jobs.put(pipe.recv())
        except (EOFError, OSError):
            os._exit(0)

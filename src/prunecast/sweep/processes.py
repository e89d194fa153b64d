"""The backend of this machine: worker processes, one for each GPU or for each of several chains on CPUs."""

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from prunecast.distributed import exit_words
from prunecast.errors import PrunecastError
from prunecast.sweep.backend import Backend, Ended
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.resources import Resources
from prunecast.sweep.signals import stop_after
from prunecast.sweep.worker import WorkerSpec, run_worker

LONGEST_TMPDIR, SHORT_TMPDIR = 70, "/tmp"
"""The path of a socket may have 107 bytes, of which `multiprocessing` adds 32."""
SAFE_PATH, NOT_GIVEN = "PYTHONSAFEPATH", "prunecast"
"""Any text in this variable keeps the current folder off Python's path. Ours means that it was not set before."""
PRELOADED = ["prunecast.sweep.processes"]
MEMORY = "Is there enough memory for this many at once?"


@dataclass(frozen=True, kw_only=True)
class _Worker:
    """A process, the pipe that tells it when the driver has died, and the devices that it has to itself."""

    process: BaseProcess
    pipe: Connection
    devices: tuple[int, ...]
    """Indices into the list of devices."""
    grace: float
    """Seconds that it has to stop."""


class Processes(Backend):
    """Processes forked from a server that has imported torch once."""

    def __init__(self, devices: Sequence[str] = ("cpu", "cpu"), *, packed: bool = False) -> None:
        """One worker per device; with `packed`, each trains its chains as a fleet.

        A chain on k GPUs has k devices to itself; on CPUs any worker runs it.
        """
        self._devices, self._packed = tuple(devices), packed
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        _shorten_sockets()
        self._workers: dict[int, _Worker] = {}

    def needs(self, chain: PlannedChain, resources: Resources) -> Resources:
        """A chain's GPUs are counted. CPUs are not: there are as many workers as devices, whatever their chains."""
        return Resources(gpus=chain.devices if self._devices[0].startswith("cuda") else 0)

    def room(self, spec: WorkerSpec) -> int:
        """The number of free devices, or of free blocks of devices."""
        return len(self._free(spec))

    def _free(self, spec: WorkerSpec) -> list[tuple[int, ...]]:
        """Blocks of consecutive free devices, one for each worker."""
        size = max(1, int(spec.resources.gpus))
        used = {place for worker in self._workers.values() for place in worker.devices}
        blocks = (
            tuple(range(first, min(first + size, len(self._devices))))
            for first in firsts(len(self._devices), size)
        )
        return [block for block in blocks if not used.intersection(block)]

    def start(self, spec: WorkerSpec, count: int) -> list[int]:
        """Fork workers."""
        return [self._started(spec, devices) for devices in self._free(spec)[:count]]

    def _started(self, spec: WorkerSpec, devices: tuple[int, ...]) -> int:
        packed = self._packed and spec.resources.gpus <= 1
        # The fork server has this process's code and store, whatever has been edited on the disk since.
        worker_spec = dataclasses.replace(
            spec, device=self._devices[devices[0]], packed=packed, code="", store_id=""
        )
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there, worker_spec), daemon=True)
        _start_fork_server()
        process.start()
        there.close()
        assert process.pid is not None
        grace = spec.resources.grace
        self._workers[process.pid] = _Worker(process=process, pipe=here, devices=devices, grace=grace)
        return process.pid

    def ended(self, seconds: float) -> Iterator[Ended]:
        """Wait for the end of a process."""
        if self._workers:
            wait([worker.process.sentinel for worker in self._workers.values()], seconds)
        else:
            time.sleep(seconds)
        for pid, worker in list(self._workers.items()):
            code = worker.process.exitcode
            if code is not None:
                del self._workers[pid]
                refusal = _refusal(worker)
                worker.process.join()
                worker.pipe.close()
                yield Ended(worker=pid, died=exit_words(code) if code else "", remedy=MEMORY, refusal=refusal)

    def stop(self) -> None:
        """Let every process store checkpoints and release its chains; kill processes that take too long."""
        began = time.monotonic()
        for worker in self._workers.values():
            worker.process.terminate()
        for worker in self._workers.values():
            worker.process.join(max(0.0, began + worker.grace - time.monotonic()))
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def _shorten_sockets() -> None:
    """Make `multiprocessing` put its sockets into /tmp if TMPDIR is too long for their names."""
    if len(os.fsencode(tempfile.gettempdir())) <= LONGEST_TMPDIR:
        return
    given, tempfile.tempdir = tempfile.tempdir, SHORT_TMPDIR
    try:
        util.get_temp_dir()  # made once per process, and removed when it ends
    except OSError as failure:
        raise PrunecastError(
            f"TMPDIR is {given}, which is too long for the names of sockets, and {SHORT_TMPDIR} cannot be used "
            f"({failure.strerror}); set TMPDIR to a shorter path."
        ) from failure
    finally:
        tempfile.tempdir = given


def _start_fork_server() -> None:
    """Start the fork server, unless it runs, with SIGINT blocked: Ctrl-C must not end it while it imports.

    The current folder is not on its path, because it would import a `numpy.py` from there. Workers have the path of
    this process, where the current folder comes last.
    """
    resource_tracker.ensure_running()  # the fork server starts it first, and that would unblock the signal
    given = os.environ.setdefault(SAFE_PATH, NOT_GIVEN)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if given == NOT_GIVEN:
            del os.environ[SAFE_PATH]


def firsts(count: int, size: int) -> range:
    """The first device of each block of `size`; with fewer devices, one block, which is refused later."""
    return range(0, max(1, count - size + 1), size)


def _refusal(worker: _Worker) -> PrunecastError | None:
    """The error that a worker sent to end the run, if any; it may have died in the middle of the message."""
    with contextlib.suppress(EOFError, OSError):
        found = worker.pipe.recv() if worker.pipe.poll() else None
        return found if isinstance(found, PrunecastError) else None
    return None


def _serve(pipe: Connection, spec: WorkerSpec) -> None:
    """The worker's process."""
    if os.environ.get(SAFE_PATH) == NOT_GIVEN:  # meant for the fork server only
        del os.environ[SAFE_PATH]
    stop_after(pipe.recv, spec.resources.grace)
    try:
        run_worker(spec)
    except PrunecastError as problem:
        with contextlib.suppress(BrokenPipeError):
            pipe.send(type(problem)(*problem.args))

"""The device thread: the only thread that uses the device and owns the objects on it. It runs coroutines in turn.

Several threads that trace, compile, capture, launch and free in one process corrupted results and crashed. So there is
one device thread. It runs coroutines, which yield whatever they would have to wait for (a point in a stream, or what a
host thread finds), and advances others meanwhile. Host threads get host memory and files only.
"""

import contextlib
import gc
import queue
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

POLL_SECONDS = 0.0003
"""Seconds between two checks of the streams while nothing else happens."""
COLLECT_SECONDS = 20.0
"""Seconds between two garbage collections, which only the device thread runs: graphs are part of cycles."""
LONGEST_WAIT = 0.5
"""Seconds after which a caller that waits for the device checks for signals."""
T = TypeVar("T")


class Done(Protocol):
    """Something to wait for: a point in a stream, or the future of work in a host thread."""

    def done(self) -> bool:
        """Whether it has happened."""


class Mark:
    """A point in a stream that the host can query without waiting."""

    def __init__(self, stream: torch.cuda.Stream | None = None) -> None:
        """Mark what the stream has to do up to now; without a stream everything is done at once."""
        self._event: torch.cuda.Event | None = None
        if stream is not None:
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(stream)

    def done(self) -> bool:
        """Whether the device has come this far."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]


Coroutine = Generator[Done, None, T]
"""A coroutine that yields what it waits for, and returns its result."""


def result_of(future: "Future[T]") -> Coroutine[T]:
    """Wait for a host thread and return what it found, or raise what it raised."""
    if not future.done():
        yield future
    return future.result()


@dataclass(eq=False)
class _Task:
    """A coroutine, what it waits for, and what must be current while it runs."""

    coroutine: Coroutine[None]
    current: Callable[[], AbstractContextManager[None]]
    waits: Done


class Loop:
    """Runs coroutines in turn, in the thread that calls `step`."""

    def __init__(self) -> None:
        """Start without coroutines."""
        self._tasks: list[_Task] = []
        self._wake = threading.Event()
        self._collected = time.monotonic()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(
        self,
        coroutine: Coroutine[None],
        current: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """Add a coroutine; `current` is entered whenever it runs."""
        self._tasks.append(_Task(coroutine, current, Mark()))

    def wake(self) -> None:
        """Let `step` check all coroutines again; may be called from any thread."""
        self._wake.set()

    def step(self) -> bool:
        """Advance every coroutine that need not wait, or wait for the first; return whether one has ended.

        A coroutine runs up to what it waits for next. What it raises is raised.
        """
        self._wake.clear()
        before, any_ready = len(self._tasks), False
        for task in list(self._tasks):
            try:
                if not task.waits.done():
                    continue
                any_ready = True
                with task.current():
                    task.waits = next(task.coroutine)
            except BaseException as end:
                self._tasks.remove(task)
                task.coroutine.close()
                if not isinstance(end, StopIteration):
                    raise
            else:
                if isinstance(task.waits, Future):
                    task.waits.add_done_callback(lambda _: self.wake())
        if not any_ready:
            self._collect()
            on_device = any(isinstance(task.waits, Mark) for task in self._tasks)
            self._wake.wait(POLL_SECONDS if on_device else None)
        return len(self._tasks) != before

    def _collect(self) -> None:
        if not gc.isenabled() and time.monotonic() - self._collected > COLLECT_SECONDS:
            gc.collect()
            self._collected = time.monotonic()


def run_to_the_end(coroutine: Coroutine[T]) -> T:
    """Run one coroutine in this thread, waiting wherever it waits."""
    while True:
        try:
            waits = next(coroutine)
        except StopIteration as end:
            result: T = end.value
            return result
        while not waits.done():
            time.sleep(0)


def host_threads(count: int, torch_threads: int) -> ThreadPoolExecutor:
    """Threads for work that needs no device."""
    return ThreadPoolExecutor(count, "host", initializer=_begin_host_thread, initargs=(torch_threads,))


def _begin_host_thread(torch_threads: int) -> None:
    torch.set_num_threads(torch_threads)
    if GUARD.active:
        _Forbidding().__enter__()  # type: ignore[no-untyped-call]  # for as long as the thread lives


class WrongThreadError(RuntimeError):
    """A host thread used a tensor that belongs to the device thread."""


class _Guard:
    """A guard for tests: every use of the device's tensors by a host thread is an error, on a CPU as on a GPU."""

    def __init__(self) -> None:
        self.active = False
        self._owned: set[int] = set()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Guard the host threads that are started from now on."""
        self.active, self._owned = True, set()
        try:
            yield
        finally:
            self.active = False

    def own(self, tensors: "list[torch.Tensor]") -> None:
        """Register tensors of the device thread; on a GPU all tensors of the device belong to it."""
        if self.active:
            self._owned.update(tensor.untyped_storage().data_ptr() for tensor in tensors)

    def forbids(self, tensor: torch.Tensor) -> bool:
        """Whether only the device thread may use a tensor."""
        return tensor.is_cuda or tensor.untyped_storage().data_ptr() in self._owned


GUARD = _Guard()


class _Forbidding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks the arguments and results of every operation of its thread."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in _tensors((args, kwargs, result)):
            if GUARD.forbids(value):
                raise WrongThreadError(f"{func} in a host thread uses a tensor of the device thread.")
        return result


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _tensors(element)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def reports_of(
    device: torch.device,
    serve: Callable[[Callable[[T], None]], None],
    stop: Callable[[BaseException | None], None],
) -> Iterator[T]:
    """Run `serve` in the device thread, yield what it reports, and raise what it raises.

    `serve` is called with a function to report with, and returns when it is done or `stop` was called. The thread has
    ended when this returns. Python's garbage collector is off meanwhile on a GPU; the thread collects garbage itself.
    """
    reports: queue.Queue[tuple[T] | BaseException | None] = queue.Queue()

    def in_thread() -> None:
        try:
            with _owning(device):
                try:
                    serve(lambda report: reports.put((report,)))
                except BaseException as failure:
                    let_go(failure)
                    raise
        except BaseException as failure:
            reports.put(failure)
        else:
            reports.put(None)

    thread = threading.Thread(target=in_thread, name="device")
    reason: BaseException | None = None
    try:
        thread.start()
        while (report := _next(reports)) is not None:
            if isinstance(report, BaseException):
                raise report
            yield report[0]
    except BaseException as failure:
        reason = failure
        raise
    finally:
        stop(reason)
        if thread.ident is not None:
            thread.join()


def let_go(failure: BaseException | None) -> None:
    """Clear the variables of functions that an exception, or one that it came from, ended; some are on the device."""
    seen: set[int] = set()
    while failure is not None and id(failure) not in seen:
        seen.add(id(failure))
        traceback.clear_frames(failure.__traceback__)
        failure = failure.__cause__ or failure.__context__


def _next(reports: "queue.Queue[T]") -> T:
    """The next report of the thread.

    A signal that arrives just before a wait is handled after it, so no wait is long. A `SimpleQueue` would wait
    forever here once the handler of a signal has outlasted the timeout (seen in Python 3.11).
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return reports.get(timeout=LONGEST_WAIT)


@contextlib.contextmanager
def _owning(device: torch.device) -> Iterator[None]:
    """Collect garbage in this thread alone, and leave nothing on the device behind."""
    if device.type != "cuda":
        yield
        return
    torch.cuda.set_device(device)
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()  # objects that exist already need not be checked by every collection
    gc.disable()
    try:
        try:
            yield
        finally:
            torch.cuda.synchronize(device)
            gc.collect()
            torch.cuda.empty_cache()
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()

"""The device thread: the only thread that uses the device and owns its objects.

When several threads of a process traced, compiled, captured, launched and freed, results were corrupted and processes
crashed. So one thread does all of this. It runs coroutines, which yield what they have to wait for: an event in a
stream, or the result of a host thread. Meanwhile it advances other coroutines. Host threads use host memory and files
only.
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
"""Seconds between two queries of the streams while nothing else happens."""
COLLECT_SECONDS = 20.0
"""Seconds between two garbage collections. Only the device thread collects, because CUDA graphs are part of cycles."""
LONGEST_WAIT = 0.5
"""Seconds after which a caller that waits for the device checks for signals."""
T = TypeVar("T")


class Waitable(Protocol):
    """Something to wait for: an event in a stream, or the future of a host thread."""

    def done(self) -> bool:
        """Whether it has happened."""


class StreamEvent:
    """A point in a stream that can be queried without waiting. On a CPU it has always been reached."""

    def __init__(self, stream: torch.cuda.Stream | None = None) -> None:
        """Record an event after everything launched on the stream so far; None stands for a CPU."""
        self._event: torch.cuda.Event | None = None
        if stream is not None:
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(stream)

    def done(self) -> bool:
        """Whether the device has reached this point."""
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]


Coroutine = Generator[Waitable, None, T]
"""A coroutine that yields what it waits for, and returns its result."""


def result_of(future: "Future[T]") -> Coroutine[T]:
    """Wait for a host thread; return its result or raise its exception."""
    if not future.done():
        yield future
    return future.result()


@dataclass(eq=False)
class _Task:
    """A coroutine, what it waits for, and the context that it runs in, such as a current stream."""

    coroutine: Coroutine[None]
    current: Callable[[], AbstractContextManager[None]]
    waits: Waitable


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
        """Add a coroutine; the context `current` is entered whenever it runs."""
        self._tasks.append(_Task(coroutine, current, StreamEvent()))

    def wake(self) -> None:
        """Let `step` check all coroutines again; may be called from any thread."""
        self._wake.set()

    def step(self) -> bool:
        """Advance every coroutine that need not wait, or wait until one can go on; return whether one has ended.

        A coroutine runs until it has to wait again. Its exceptions are raised.
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
            on_device = any(isinstance(task.waits, StreamEvent) for task in self._tasks)
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
    """A pool of threads for work on the host."""
    return ThreadPoolExecutor(count, "host", initializer=_begin_host_thread, initargs=(torch_threads,))


def _begin_host_thread(torch_threads: int) -> None:
    torch.set_num_threads(torch_threads)
    if GUARD.active:
        _Forbidding().__enter__()  # type: ignore[no-untyped-call]  # for as long as the thread lives


class WrongThreadError(RuntimeError):
    """A host thread used a tensor that belongs to the device thread."""


class _Guard:
    """A guard for tests: a host thread that uses a tensor of the device thread fails, on a CPU as on a GPU."""

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
        """Register tensors of the device thread; it owns all tensors on a GPU anyway."""
        if self.active:
            self._owned.update(tensor.untyped_storage().data_ptr() for tensor in tensors)

    def forbids(self, tensor: torch.Tensor) -> bool:
        """Whether only the device thread may use a tensor."""
        return tensor.is_cuda or tensor.untyped_storage().data_ptr() in self._owned


GUARD = _Guard()


class _Forbidding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Checks the arguments and results of every torch operation in its thread."""

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


def run_in_device_thread(
    device: torch.device,
    serve: Callable[[Callable[[T], None]], None],
    stop: Callable[[BaseException | None], None],
) -> Iterator[T]:
    """Run `serve` in a device thread, yield its reports, and raise its exception.

    `serve` gets a function to report with. It returns when it is done, or soon after `stop` was called. The thread has
    ended when this generator ends. On a GPU, Python's automatic garbage collection is off meanwhile; the device thread
    collects garbage itself.
    """
    reports: queue.Queue[tuple[T] | BaseException | None] = queue.Queue()

    def in_thread() -> None:
        try:
            with _device_owner(device):
                try:
                    serve(lambda report: reports.put((report,)))
                except BaseException as failure:
                    clear_tracebacks(failure)
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


def clear_tracebacks(failure: BaseException | None) -> None:
    """Clear the local variables that an exception and its causes keep alive; some are tensors on the device."""
    seen: set[int] = set()
    while failure is not None and id(failure) not in seen:
        seen.add(id(failure))
        traceback.clear_frames(failure.__traceback__)
        failure = failure.__cause__ or failure.__context__


def _next(reports: "queue.Queue[T]") -> T:
    """The next report of the thread.

    Python handles a signal that arrives just before a wait only after it, so waits are short. A `SimpleQueue` can wait
    forever if a signal handler takes longer than the timeout (seen in Python 3.11).
    """
    while True:
        with contextlib.suppress(queue.Empty):
            return reports.get(timeout=LONGEST_WAIT)


@contextlib.contextmanager
def _device_owner(device: torch.device) -> Iterator[None]:
    """Collect garbage in this thread only, and free everything on the device at the end."""
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

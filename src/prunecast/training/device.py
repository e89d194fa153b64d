"""Settings of the device for a step: number formats, determinism and threads; and CUDA graphs."""

import ctypes
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from prunecast.spec import Precision

WARM_UPS = 3
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""The numbers of these parameters of glibc's mallopt."""


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """Run convolutions and products in bfloat16 under bf16 (parameters stay float32); otherwise do nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")


@contextmanager
def settings(
    precision: Precision, device: torch.device, threads: int, *, trials: bool = True
) -> Iterator[None]:
    """Set torch's number formats, determinism and threads for a chain, and restore the caller's settings afterwards.

    On CPU, algorithms are deterministic and the number of threads fixed, so a run is repeatable bit for bit.
    On a GPU, fp32 means IEEE float32, TF32 is used only if asked for, and with `trials` cuDNN tries out every
    algorithm at the first call of its kind.
    """
    # torch.use_deterministic_algorithms would import torch's compiler, which takes seconds.
    old_threads, old_deterministic = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    deterministic: Any = torch.utils.deterministic  # its settings are properties that mypy does not see
    old_benchmark, old_fill = cudnn.benchmark, deterministic.fill_uninitialized_memory
    old_tf32 = matmul.allow_tf32, cudnn.allow_tf32
    on_cpu = device.type == "cpu"
    try:
        torch.set_deterministic_debug_mode("error" if on_cpu else old_deterministic)
        cudnn.benchmark = trials and not on_cpu
        matmul.allow_tf32 = cudnn.allow_tf32 = precision != "fp32"
        if on_cpu:
            torch.set_num_threads(threads)
            # Deterministic algorithms would write NaN into every new tensor before its values.
            deterministic.fill_uninitialized_memory = False
        memory = reused_memory() if on_cpu else nullcontext()
        with torch.random.fork_rng(devices=[] if on_cpu else [device]), memory:
            yield
    finally:
        torch.set_num_threads(old_threads)
        torch.set_deterministic_debug_mode(old_deterministic)
        deterministic.fill_uninitialized_memory = old_fill
        cudnn.benchmark = old_benchmark
        matmul.allow_tf32, cudnn.allow_tf32 = old_tf32


@contextmanager
def reused_memory() -> Iterator[None]:
    """Let glibc keep freed memory for the next tensors, and return it to the system at the end.

    By default it returns large blocks at once, so that every step of training waits for new, zeroed pages.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, 2**30)
    library.mallopt(TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        library.mallopt(TRIM_THRESHOLD, 2**26)
        library.malloc_trim(0)


class Captured:
    """A function without arguments, captured as a CUDA graph on its first call and replayed on every call.

    Hundreds of small kernels then take one launch. Capturing needs a few trial runs on a side stream, so that
    libraries choose algorithms and reserve memory outside the graph. What the trials changed is restored, so a
    call does exactly one step. If the function waits for the device (a user's network that reads its values on
    the host, for example), the trials show it, and the function runs without a graph.
    """

    def __init__(self, function: Callable[[], None], written: list[Tensor]) -> None:
        """Remember the function and the tensors that it writes; nothing runs yet."""
        self._function = function
        self._written = written
        self._run: Callable[[], None] | None = None

    def __call__(self) -> None:
        """Do what the function does."""
        if self._run is None:
            self._run = self._captured()
        self._run()

    def _captured(self) -> Callable[[], None]:
        """Return the graph's replay, or the function itself if it cannot be captured."""
        device = self._written[0].device
        with torch.cuda.device(device):
            saved = [tensor.detach().clone() for tensor in self._written]
            try:
                self._warm_up(saved)
            except RuntimeError as failure:
                self._restore(saved)
                warnings.warn(f"The step runs without a CUDA graph, which is slower: {failure}", stacklevel=2)
                return self._function
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._function()
            self._restore(saved)
            return graph.replay

    def _warm_up(self, saved: list[Tensor]) -> None:
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for trial in range(WARM_UPS):
                # The first trial may wait for the device, while libraries choose their algorithms.
                with no_waiting() if trial else nullcontext():
                    self._function()
                # The cursor must not run past the end of a short epoch.
                self._restore(saved)
        torch.cuda.current_stream().wait_stream(side)

    @torch.no_grad()
    def _restore(self, saved: list[Tensor]) -> None:
        for tensor, value in zip(self._written, saved, strict=True):
            tensor.copy_(value)


def replaced_tensor(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> str | None:
    """The name of a tensor that a step replaced instead of changing it in place; None if there is none.

    A CUDA graph would read the old tensor at every replay.
    """
    return next(
        (name for name in after if name not in before or after[name].data_ptr() != before[name].data_ptr()),
        None,
    )


@contextmanager
def no_waiting() -> Iterator[None]:
    """Turn every operation that waits for the device, which would break a capture, into an error."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls this mode a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)

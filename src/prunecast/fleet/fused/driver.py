"""The few functions of the CUDA driver that kernels need, in torch's own context of a device."""

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from prunecast.fleet.fused.kernels import NoKernels

MOST_DYNAMIC_SHARED = 8
Held = ctypes.c_void_p | ctypes.c_int64 | ctypes.c_float | ctypes.Structure


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel that is loaded."""

    name: str
    function: ctypes.c_void_p
    parameters: int | None
    """How many it has, where the driver can tell."""


class Context:
    """A device's primary context, which torch uses too; it stays as long as the process."""

    def __init__(self, device: int) -> None:
        """Take part in the context of a device, by its number."""
        self._context = ctypes.c_void_p()
        handle = ctypes.c_int()
        what = f"device {device} cannot be used"
        _call("cuInit", 0, what=what)
        _call("cuDeviceGet", ctypes.byref(handle), device, what=what)
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle, what=what)

    def load(self, source: str, code: bytes, names: Sequence[str]) -> dict[str, Kernel]:
        """Load machine code and all its kernels; the code stays as long as the process."""
        with self._current(source):
            module = ctypes.c_void_p()
            _call("cuModuleLoadData", ctypes.byref(module), code, what=f"{source} cannot be loaded")
            return {name: _kernel(module, name) for name in names}

    def allow_shared(self, kernel: Kernel, shared: int) -> None:
        """Let a kernel use more than 48 KiB of dynamic shared memory."""
        what = f"kernel {kernel.name!r} cannot have {shared} bytes of shared memory"
        with self._current(kernel.name):
            number = ctypes.c_int(shared)
            _call("cuFuncSetAttribute", kernel.function, MOST_DYNAMIC_SHARED, number, what=what)

    def launch(
        self,
        kernel: Kernel,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        stream: int,
        held: Sequence[Held],
    ) -> None:
        """Put a kernel on a stream."""
        pointers = (ctypes.c_void_p * max(1, len(held)))(*[ctypes.addressof(each) for each in held])
        place = (*grid, threads, 1, 1, shared, ctypes.c_void_p(stream), pointers, None)
        with self._current(kernel.name):
            what = (
                f"kernel {kernel.name!r} was not launched with grid {grid}, {threads} threads, {shared} bytes"
            )
            _call("cuLaunchKernel", kernel.function, *place, what=what)

    @contextlib.contextmanager
    def _current(self, what: str) -> Iterator[None]:
        """Make the context this thread's for a moment, unless it is already."""
        now = ctypes.c_void_p()
        _call("cuCtxGetCurrent", ctypes.byref(now), what=what)
        if now.value == self._context.value:
            yield
            return
        _call("cuCtxPushCurrent_v2", self._context, what=what)
        try:
            yield
        finally:
            _call("cuCtxPopCurrent_v2", ctypes.byref(now), what=what)


def _kernel(module: ctypes.c_void_p, name: str) -> Kernel:
    function = ctypes.c_void_p()
    what = f"kernel {name!r} is not in its source's code"
    _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode(), what=what)
    if hasattr(_driver(), "cuFuncLoad"):
        # Else it would be loaded by its first launch, in the middle of a capture.
        _call("cuFuncLoad", function, what=f"kernel {name!r} cannot be loaded")
    return Kernel(name=name, function=function, parameters=_parameters(function))


def _parameters(function: ctypes.c_void_p) -> int | None:
    if not hasattr(_driver(), "cuFuncGetParamInfo"):
        return None
    offset, size, count = ctypes.c_size_t(), ctypes.c_size_t(), 0
    places = (ctypes.byref(offset), ctypes.byref(size))
    while _driver().cuFuncGetParamInfo(function, ctypes.c_size_t(count), *places) == 0:
        count += 1
    return count


def _call(function: str, *args: Any, what: str) -> None:
    result = getattr(_driver(), function)(*args)
    if result:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(result, ctypes.byref(text))
        reason = text.value.decode() if text.value else f"error {result}"
        raise NoKernels(f"The CUDA driver says that {what}: {reason} ({function}).")


@cache
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as missing:
        raise NoKernels("libcuda.so.1, the driver of NVIDIA's GPUs, was not found.") from missing

"""Compiles kernels, loads them through the CUDA driver, and launches them on torch's current stream."""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from prunecast.fleet.kernels.nvrtc import NoKernels, compile_anew, exported, machine_code, source_text

Argument = Tensor | int | float | ctypes.Structure | None
Held = ctypes.c_void_p | ctypes.c_int64 | ctypes.c_float | ctypes.Structure
MOST_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""
SHARED_WITHOUT_ASKING = 48 * 1024


class Kernels(Protocol):
    """Compiled kernels, which are launched by name."""

    def load(self) -> None:
        """Load the kernels onto the device before the first launch; the thread that launches calls this."""

    def launch(
        self,
        name: str,
        *,
        grid: tuple[int, int, int] = ...,
        threads: int = ...,
        shared: int = ...,
        args: Sequence[Argument] = ...,
    ) -> None:
        """Launch a kernel on the current stream, with `shared` bytes of dynamic shared memory per block."""


Compile = Callable[[str, Mapping[str, int]], Kernels]
"""Compiles a source file with macros. Any thread may call it, because it does not use the device."""


@cache
def compiler(device: torch.device) -> Compile:
    """Return the compiler for a device; it compiles each kernel once per process."""
    found: dict[tuple[str, tuple[tuple[str, int], ...]], Library] = {}
    lock = threading.Lock()

    def kernels_of(source: str, macros: Mapping[str, int]) -> Kernels:
        key = source, tuple(sorted(macros.items()))
        library = found.get(key)
        if library is None:
            library = Library(source, macros, device=device)
            with lock:
                library = found.setdefault(key, library)
        return library

    return kernels_of


class Library:
    """The kernels of one source on one device.

    Making it compiles the source on the host. Loading, like launching, belongs to the thread that owns the device.
    Once loaded, a launch neither allocates nor waits, so it may be captured in a graph.
    """

    def __init__(
        self, source: str | Path, macros: Mapping[str, object] | None = None, *, device: torch.device | str
    ) -> None:
        """Compile the source; raises `NoKernels` if that is not possible here."""
        self._device = _numbered(device)
        self._name, self._text, self._macros = Path(source).name, source_text(source), macros or {}
        self._target = "sm_{}{}".format(*torch.cuda.get_device_capability(self._device))
        self._code = machine_code(self._name, self._text, self._macros, self._target)
        self._context: Context | None = None
        self._kernels: dict[str, Kernel] = {}
        self._most_shared: dict[str, int] = {}

    def load(self) -> None:
        """Load the machine code; if code from the disk cannot be loaded, the source is compiled again."""
        if self._context is not None:
            return
        context, names = _context(self._device.index), exported(self._text)
        try:
            self._kernels = context.load(self._name, self._code, names)
        except NoKernels:
            code = compile_anew(self._name, self._text, self._macros, self._target)
            self._kernels = context.load(self._name, code, names)
        self._context, self._code = context, b""

    def launch(
        self,
        name: str,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        threads: int = 256,
        shared: int = 0,
        args: Sequence[Argument] = (),
    ) -> None:
        """Launch a kernel on the current stream of the library's device."""
        self.load()
        assert self._context is not None
        kernel = self._kernels.get(name)
        if kernel is None:
            raise NoKernels(f"There is no kernel {name!r} here, only {', '.join(self._kernels)}.")
        if kernel.parameters not in (None, len(args)):
            raise NoKernels(f"Kernel {name!r} has {kernel.parameters} parameters, {len(args)} were given.")
        held = [self._held(name, at, each) for at, each in enumerate(args)]
        if shared > max(SHARED_WITHOUT_ASKING, self._most_shared.get(name, 0)):
            self._context.allow_shared(kernel, shared)
            self._most_shared[name] = shared
        stream = torch.cuda.current_stream(self._device).cuda_stream
        self._context.launch(kernel, grid, threads, shared, stream, held)

    def _held(self, name: str, at: int, value: Argument) -> Held:
        """Return an argument in the driver's format. Whole numbers have 8 bytes; a kernel's int reads the first 4."""
        if isinstance(value, Tensor):
            if value.device != self._device:
                raise NoKernels(f"Kernel {name!r}, parameter {at}: the tensor is not on {self._device}.")
            return ctypes.c_void_p(value.data_ptr())
        if value is None:
            return ctypes.c_void_p(None)
        if isinstance(value, int):
            return ctypes.c_int64(value)
        return ctypes.c_float(value) if isinstance(value, float) else value


def _numbered(device: torch.device | str) -> torch.device:
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available() or torch.version.hip:
        raise NoKernels(f"Kernels need an NVIDIA GPU; {device} is none, or has no driver here.")
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A loaded kernel."""

    name: str
    function: ctypes.c_void_p
    parameters: int | None
    """The number of its parameters; None if the driver cannot say."""


class Context:
    """A device's primary context, which torch uses too; it is never released."""

    def __init__(self, device: int) -> None:
        """Retain the context of the device with this number."""
        self._context = ctypes.c_void_p()
        handle = ctypes.c_int()
        what = f"device {device} cannot be used"
        _call("cuInit", 0, what=what)
        _call("cuDeviceGet", ctypes.byref(handle), device, what=what)
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle, what=what)

    def load(self, source: str, code: bytes, names: Sequence[str]) -> dict[str, Kernel]:
        """Load machine code and all its kernels; it is never unloaded."""
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
        """Launch a kernel on a stream."""
        pointers = (ctypes.c_void_p * max(1, len(held)))(*[ctypes.addressof(each) for each in held])
        place = (*grid, threads, 1, 1, shared, ctypes.c_void_p(stream), pointers, None)
        with self._current(kernel.name):
            what = (
                f"kernel {kernel.name!r} was not launched with grid {grid}, {threads} threads, {shared} bytes"
            )
            _call("cuLaunchKernel", kernel.function, *place, what=what)

    @contextlib.contextmanager
    def _current(self, what: str) -> Iterator[None]:
        """Make this the current context of the thread, unless it is already."""
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


@cache
def _context(device: int) -> Context:
    return Context(device)


def _kernel(module: ctypes.c_void_p, name: str) -> Kernel:
    function = ctypes.c_void_p()
    what = f"kernel {name!r} is not in its source's code"
    _call("cuModuleGetFunction", ctypes.byref(function), module, name.encode(), what=what)
    if hasattr(_driver(), "cuFuncLoad"):
        # Otherwise the first launch would load it, in the middle of a capture.
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


@dataclass(frozen=True, kw_only=True)
class Launch:
    """The blocks and threads of a launch, and its dynamic shared memory."""

    grid: tuple[int, int, int]
    threads: int = 256
    shared: int = 0

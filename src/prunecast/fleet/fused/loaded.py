"""Kernels on a CUDA device: compiled, loaded, and launched on torch's current stream."""

import ctypes
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from prunecast.fleet.fused import driver
from prunecast.fleet.fused.kernels import Argument, NoKernels, exported, source_text
from prunecast.fleet.fused.nvrtc import compile_anew, machine_code

SHARED_WITHOUT_ASKING = 48 * 1024


class Library:
    """The kernels of some sources on one device; each source is compiled by itself.

    Everything is loaded here, so that a launch neither allocates nor waits and may be captured in a graph. Any
    thread may launch.
    """

    def __init__(
        self,
        sources: Sequence[str | Path] | str | Path,
        macros: Mapping[str, object] | None = None,
        *,
        device: torch.device | str = "cuda",
    ) -> None:
        """Compile and load; raises `NoKernels` where that cannot be done."""
        self._device = _numbered(device)
        self._context = driver.Context(self._device.index)
        self._lock = threading.Lock()
        self._kernels: dict[str, driver.Kernel] = {}
        self._most_shared: dict[str, int] = {}
        names = [sources] if isinstance(sources, str | Path) else sources
        for name in names:
            self._kernels |= _loaded(self._context, name, macros or {}, architecture(self._device))

    def launch(
        self,
        name: str,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        threads: int = 256,
        shared: int = 0,
        args: Sequence[Argument] = (),
    ) -> None:
        """Put a kernel on the current stream of the library's device."""
        kernel = self._kernels.get(name)
        if kernel is None:
            raise NoKernels(f"There is no kernel {name!r} here, only {', '.join(self._kernels)}.")
        if kernel.parameters not in (None, len(args)):
            raise NoKernels(f"Kernel {name!r} has {kernel.parameters} parameters, {len(args)} were given.")
        held = [self._held(name, at, each) for at, each in enumerate(args)]
        if shared > SHARED_WITHOUT_ASKING:
            self._allow_shared(kernel, shared)
        stream = torch.cuda.current_stream(self._device).cuda_stream
        self._context.launch(kernel, grid, threads, shared, stream, held)

    def _allow_shared(self, kernel: driver.Kernel, shared: int) -> None:
        with self._lock:
            if shared > self._most_shared.get(kernel.name, 0):
                self._context.allow_shared(kernel, shared)
                self._most_shared[kernel.name] = shared

    def _held(self, name: str, at: int, value: Argument) -> driver.Held:
        """An argument as the driver reads it; whole numbers fill 8 bytes, of which a kernel's int reads the first 4."""
        if isinstance(value, Tensor):
            if value.device != self._device:
                raise NoKernels(f"Kernel {name!r}, parameter {at}: the tensor is not on {self._device}.")
            return ctypes.c_void_p(value.data_ptr())
        if value is None:
            return ctypes.c_void_p(None)
        if isinstance(value, int):
            return ctypes.c_int64(value)
        return ctypes.c_float(value) if isinstance(value, float) else value


def architecture(device: torch.device) -> str:
    """The architecture to compile for."""
    return "sm_{}{}".format(*torch.cuda.get_device_capability(device))


def _numbered(device: torch.device | str) -> torch.device:
    device = torch.device(device)
    if device.type != "cuda" or not torch.cuda.is_available() or torch.version.hip:
        raise NoKernels(f"Kernels need an NVIDIA GPU; {device} is none, or has no driver here.")
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def _loaded(
    context: driver.Context, source: str | Path, macros: Mapping[str, object], target: str
) -> dict[str, driver.Kernel]:
    """The kernels of one source; code on the disk that cannot be loaded is compiled again."""
    name, text = Path(source).name, source_text(source)
    try:
        return context.load(name, machine_code(name, text, macros, target), exported(text))
    except NoKernels:
        return context.load(name, compile_anew(name, text, macros, target), exported(text))

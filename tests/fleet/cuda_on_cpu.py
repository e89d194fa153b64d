"""Compile the fleet's CUDA kernels for the CPU and launch them on tensors there.

A kernel's indices, barriers and sums can so be tested and debugged where there is no GPU. What a GPU leaves
undefined (a warp that diverges at a collective, a thread that ends before a barrier, a matrix row that is not
aligned) raises `KernelError` with the block and the thread.

To look for accesses out of bounds, run the tests under the sanitizers, whose runtime must be loaded first:

    PRUNECAST_SANITIZE=1 ASAN_OPTIONS=detect_leaks=0 \\
        LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libubsan.so)" pytest tests/fleet/...
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

import prunecast.fleet

HERE = Path(__file__).parent
SOURCES = Path(prunecast.fleet.__file__).parent / "kernels" / "source"
HAS_COMPILER = shutil.which("g++") is not None

Argument = torch.Tensor | int | float | ctypes.Structure | None
Held = ctypes.c_void_p | ctypes.c_int64 | ctypes.c_float | ctypes.c_double | ctypes.Structure
ONE_LAUNCH = threading.Lock()
"""All libraries run their threads on the same stacks, so there is one launch at a time."""
STACKS: list[int] = []
"""Their address, once the first library has made them."""


class KernelError(Exception):
    """A kernel did what a GPU leaves undefined."""


class HostKernels:
    """The kernels of some sources, compiled with some macros; each source becomes a library of its own."""

    def __init__(
        self, sources: Sequence[str | Path] | str | Path, macros: Mapping[str, object] | None = None
    ):
        """Compile `sources`: names in the kernels' folder, or paths."""
        names = [sources] if isinstance(sources, str | Path) else sources
        self._libraries = [ctypes.CDLL(str(_compiled(SOURCES / name, macros or {}))) for name in names]

    def load(self) -> None:
        """Do nothing: the kernels are in this process already."""

    def launch(
        self,
        name: str,
        *,
        grid: tuple[int, int, int] = (1, 1, 1),
        threads: int = 256,
        shared: int = 0,
        args: Sequence[Argument] = (),
        order: int = 0,
    ) -> None:
        """Run every block of `grid`, one after another; `order` seeds a random order of threads, 0 keeps theirs."""
        library = next((each for each in self._libraries if hasattr(each, f"launch_{name}")), None)
        if library is None:
            raise KernelError(f"{name}: no source exports it with EXPORT_KERNEL({name})")
        held = _arguments(name, library, args)
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(each) for each in held])
        library.launch_failure.restype = ctypes.c_char_p
        with ONE_LAUNCH:
            _lend_stacks(library)
            library.set_order(ctypes.c_uint(order))
            getattr(library, f"launch_{name}")(*grid, threads, shared, pointers)
            failure = library.launch_failure()
        if failure is not None:
            raise KernelError(f"{name}: {failure.decode()}")


def _lend_stacks(library: ctypes.CDLL) -> None:
    library.use_stacks.restype = ctypes.c_void_p
    stacks = library.use_stacks(ctypes.c_void_p(STACKS[0] if STACKS else None))
    STACKS[:] = [stacks]


def _arguments(name: str, library: ctypes.CDLL, args: Sequence[Argument]) -> list[Held]:
    signature = getattr(library, f"signature_{name}")
    signature.restype = ctypes.c_char_p
    letters = signature().decode()
    if len(letters) != len(args):
        raise KernelError(f"{name}: it has {len(letters)} parameters, {len(args)} were given")
    return [
        _argument(f"{name}, parameter {at}", letter, each)
        for at, (letter, each) in enumerate(zip(letters, args, strict=True))
    ]


def _argument(place: str, letter: str, value: Argument) -> Held:
    if letter == "P" and (value is None or isinstance(value, torch.Tensor)):
        return ctypes.c_void_p(_address(place, value))
    if letter in "iq" and isinstance(value, int):
        return ctypes.c_int64(value)
    if letter in "fd" and isinstance(value, int | float):
        return ctypes.c_float(value) if letter == "f" else ctypes.c_double(value)
    if letter == "s" and isinstance(value, ctypes.Structure):
        return value
    raise KernelError(f"{place}: a {type(value).__name__} was given for a parameter of kind {letter!r}")


def _address(place: str, tensor: torch.Tensor | None) -> int | None:
    if tensor is None:
        return None
    if tensor.device.type != "cpu" or not tensor.is_contiguous():
        raise KernelError(f"{place}: the tensor must be contiguous and on the CPU")
    return tensor.data_ptr()


def _compiled(source: Path, macros: Mapping[str, object]) -> Path:
    """The library of one source, compiled once; a rename makes it appear whole to processes that run beside."""
    command = ["g++", "-x", "c++", *_flags(), *(f"-D{key}={value}" for key, value in sorted(macros.items()))]
    key = hashlib.sha256("\0".join(command).encode())
    headers = {*source.parent.glob("*.cuh"), *SOURCES.glob("*.cuh"), *HERE.glob("cuda_*.hpp")}
    for path in [source, *sorted(headers)]:
        key.update(path.read_bytes())
    folder = Path(tempfile.gettempdir()) / f"prunecast-kernels-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{source.stem}-{key.hexdigest()[:24]}.so"
    if not library.exists():
        _compile([*command, str(source)], library)
    return library


def _compile(command: list[str], library: Path) -> None:
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        output = Path(folder) / library.name
        done = subprocess.run([*command, "-o", str(output)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise KernelError(f"g++ refused a kernel's source:\n{done.stderr}")
        output.replace(library)


def _flags() -> list[str]:
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g"]
    return [
        *("-O2", "-std=c++17", "-shared", "-fPIC", "-DPRUNECAST_HOST", f"-I{SOURCES}"),
        *("-include", str(HERE / "cuda_on_cpu.hpp")),
        # Kernels read the same shared memory as several types, and libraries must not share their static arrays.
        *("-fno-strict-aliasing", "-fvisibility=hidden", "-fno-gnu-unique"),
        *(sanitize if os.environ.get("PRUNECAST_SANITIZE") == "1" else []),
    ]

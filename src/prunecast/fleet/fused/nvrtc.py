"""CUDA source to machine code by NVRTC, the compiler that torch brings with it; kept on the disk."""

import contextlib
import ctypes
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch

from prunecast.data import cache_folder
from prunecast.fleet.fused.kernels import NoKernels

FORMAT = 1
LONGEST_LOG = 2000


def machine_code(name: str, text: str, macros: Mapping[str, object], architecture: str) -> bytes:
    """The machine code of one source for an architecture ("sm_90"), compiled or found on the disk."""
    options = _options(macros, architecture)
    place = _place(name, text, options)
    with contextlib.suppress(OSError):
        return place.read_bytes()
    return compile_anew(name, text, macros, architecture)


def compile_anew(name: str, text: str, macros: Mapping[str, object], architecture: str) -> bytes:
    """The same, compiled for sure; where the disk cannot be written nothing is kept."""
    options = _options(macros, architecture)
    code = _compiled(name, text, options)
    with contextlib.suppress(OSError):
        _keep(_place(name, text, options), code)
    return code


def _options(macros: Mapping[str, object], architecture: str) -> list[str]:
    defined = [f"--define-macro={key}={value}" for key, value in sorted(macros.items())]
    return [f"--gpu-architecture={architecture}", "--std=c++17", *defined]


def _place(name: str, text: str, options: Sequence[str]) -> Path:
    key = hashlib.sha256("\0".join([str(FORMAT), str(_version()), *options, text]).encode())
    return cache_folder() / "kernels" / f"{Path(name).stem}-{key.hexdigest()[:32]}.cubin"


def _keep(place: Path, code: bytes) -> None:
    """Write aside and rename, so that processes beside see the whole or nothing."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=place.parent, prefix=".partial-", delete=False) as file:
        try:
            file.write(code)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)  # made for this user alone, but a cache may be shared
            Path(file.name).replace(place)
        except OSError:
            Path(file.name).unlink(missing_ok=True)
            raise


def _compiled(name: str, text: str, options: Sequence[str]) -> bytes:
    library = _library()
    program = ctypes.c_void_p()
    encoded = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    source = (ctypes.c_char_p(text.encode()), ctypes.c_char_p(name.encode()))
    _check(library.nvrtcCreateProgram(ctypes.byref(program), *source, 0, None, None), name)
    try:
        if library.nvrtcCompileProgram(program, len(options), encoded):
            log = _part(program, "ProgramLog", name).rstrip(b"\0").decode(errors="replace").strip()
            raise NoKernels(f"NVRTC refused {name} ({' '.join(options)}): {log[:LONGEST_LOG]}")
        return _part(program, "CUBIN", name)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _part(program: ctypes.c_void_p, part: str, name: str) -> bytes:
    library, size = _library(), ctypes.c_size_t()
    _check(getattr(library, f"nvrtcGet{part}Size")(program, ctypes.byref(size)), name)
    content = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{part}")(program, content), name)
    return content.raw


def _check(result: int, name: str) -> None:
    if result:
        raise NoKernels(f"NVRTC could not compile {name}: {_library().nvrtcGetErrorString(result).decode()}.")


@cache
def _version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), "anything")
    return major.value, minor.value


@cache
def _library() -> Any:
    """The compiler of torch's own version of CUDA: as it is loaded already, or where its wheels put it."""
    if not torch.version.cuda:
        raise NoKernels("This torch was built without CUDA, so there is no compiler for kernels.")
    name = f"libnvrtc.so.{torch.version.cuda.partition('.')[0]}"
    packages = Path(torch.__file__).parent.parent
    found = [*(packages / "nvidia").glob(f"*/lib/{name}"), *(packages / "torch" / "lib").glob(f"{name}*")]
    for place in (name, *map(str, found)):
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(place)
            library.nvrtcGetErrorString.restype = ctypes.c_char_p
            return library
    raise NoKernels(f"{name}, the compiler that comes with torch, was not found; install torch again.")

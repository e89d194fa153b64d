"""Compiles CUDA source with NVRTC, which comes with torch, and caches the machine code on disk."""

import contextlib
import ctypes
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch

from prunecast.data import cache_folder
from prunecast.errors import PrunecastError

FORMAT = 1
LONGEST_LOG = 2000
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*$', re.MULTILINE)
EXPORTED = re.compile(r"^[ \t]*EXPORT_KERNEL\((\w+)\)", re.MULTILINE)


class NoKernels(PrunecastError):  # noqa: N818 - an answer, not something that broke
    """Kernels cannot run here: no compiler, no driver, or too old a device. Packs train in another mode."""


def source_text(source: str | Path) -> str:
    """Return the text of a source in the package's folder, or at a path, with its includes inserted once."""
    done: set[str] = set()

    def whole(name: str, text: str) -> str:
        def included(match: re.Match[str]) -> str:
            other = match[1]
            if other in done:
                return ""
            done.add(other)
            return whole(other, _read(other, folder)) + f'\n#line {_line(text, match.end()) + 1} "{name}"'

        body = INCLUDE.sub(included, text.replace("#pragma once", ""))
        return f'#line 1 "{name}"\n{body}'

    folder = Path(source).parent if isinstance(source, Path) else None
    return whole(Path(source).name, _read(str(source), None))


def exported(text: str) -> list[str]:
    """Return the names of the kernels of a source."""
    return EXPORTED.findall(text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _read(name: str, folder: Path | None) -> str:
    for place in (Path(name), folder and folder / name, files("prunecast.fleet.kernels") / "source" / name):
        if place and place.is_file():
            return place.read_text(encoding="utf-8")
    raise NoKernels(f"The kernels' source {name!r} is missing; install prunecast again.")


def machine_code(name: str, text: str, macros: Mapping[str, object], architecture: str) -> bytes:
    """Return the machine code of one source for an architecture ("sm_90"), from the disk if it is there."""
    options = _options(macros, architecture)
    place = _place(name, text, options)
    with contextlib.suppress(OSError):
        return place.read_bytes()
    return compile_anew(name, text, macros, architecture)


def compile_anew(name: str, text: str, macros: Mapping[str, object], architecture: str) -> bytes:
    """Compile a source and keep the code on the disk, if the disk can be written."""
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
    """Write a temporary file and rename it, so that other processes never read an unfinished file."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=place.parent, prefix=".partial-", delete=False) as file:
        try:
            file.write(code)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).chmod(0o644)  # temporary files are private, but a cache may be shared
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
    """Return NVRTC of torch's CUDA version, already loaded or from the folders of torch's wheels."""
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

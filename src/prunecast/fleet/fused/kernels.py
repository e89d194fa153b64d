"""What launches kernels, and the text of those that ship with the package."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from torch import Tensor

from prunecast.errors import PrunecastError

Argument = Tensor | int | float | ctypes.Structure | None
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)".*$', re.MULTILINE)
EXPORTED = re.compile(r"^[ \t]*EXPORT_KERNEL\((\w+)\)", re.MULTILINE)


class NoKernels(PrunecastError):  # noqa: N818 - an answer, not something that broke
    """Kernels cannot be had here (no compiler, no driver, a device that is too old), so there must be another way."""


class Kernels(Protocol):
    """Some compiled kernels, which can be launched by name."""

    def launch(
        self,
        name: str,
        *,
        grid: tuple[int, int, int] = ...,
        threads: int = ...,
        shared: int = ...,
        args: Sequence[Argument] = ...,
    ) -> None:
        """Run a kernel after everything launched before: `shared` bytes of dynamic shared memory a block."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How many blocks of how many threads a kernel needs, and how much dynamic shared memory."""

    grid: tuple[int, int, int]
    threads: int = 256
    shared: int = 0


def source_text(source: str | Path) -> str:
    """The text of a source in the package's folder, or at a path, with what it includes put in place once."""
    seen: set[str] = set()

    def whole(name: str, text: str) -> str:
        def included(match: re.Match[str]) -> str:
            other = match[1]
            if other in seen:
                return ""
            seen.add(other)
            return whole(other, _read(other, beside)) + f'\n#line {_line(text, match.end()) + 1} "{name}"'

        body = INCLUDE.sub(included, text.replace("#pragma once", ""))
        return f'#line 1 "{name}"\n{body}'

    beside = Path(source).parent if isinstance(source, Path) else None
    return whole(Path(source).name, _read(str(source), None))


def exported(text: str) -> list[str]:
    """The kernels of a source."""
    return EXPORTED.findall(text)


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _read(name: str, beside: Path | None) -> str:
    for place in (Path(name), beside and beside / name, files("prunecast.fleet.fused") / "source" / name):
        if place and place.is_file():
            return place.read_text(encoding="utf-8")
    raise NoKernels(f"The kernels' source {name!r} is missing; install prunecast again.")

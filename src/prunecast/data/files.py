"""Files under relative names, in a folder or in an archive; archives are read, never unpacked to disk."""

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, NoReturn, Protocol

from prunecast.errors import PrunecastError

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, lzma.LZMAError, zlib.error, OSError, RuntimeError)
MOST_BYTES = 8 << 30
"""A larger archive is not read into memory."""


class Tree(Protocol):
    """Files under relative names with forward slashes."""

    @property
    def base(self) -> Path:
        """The folder or archive, to name a file in messages as base / name."""

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Files in a folder."""

    base: Path

    def names(self) -> Sequence[str]:
        """Return the names of all files at any depth, sorted."""
        walk = os.walk(self.base, onerror=_raise, followlinks=True)
        places = ((Path(place).relative_to(self.base).as_posix(), files) for place, _, files in walk)
        return sorted(
            file if place == "." else f"{place}/{file}" for place, files in places for file in files
        )

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""
        return (self.base / name).is_file()

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        try:
            return (self.base / name).open("rb")
        except OSError as refused:
            _raise(refused)


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The files of an archive, held in memory: faster than a hundred thousand small files on a disk."""

    base: Path
    contents: Mapping[str, bytes]

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""
        return sorted(self.contents)

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""
        return name in self.contents

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return BytesIO(self.contents[name])


def _raise(refused: OSError) -> NoReturn:
    raise PrunecastError(f"{refused.filename} cannot be read ({refused.strerror}).") from refused


def is_archive(path: Path) -> bool:
    """Say whether a path is a file named like an archive that can be read."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def read_archive(archive: Path) -> Archive:
    """Read a tar (plain, gz, bz2, xz) or zip archive; names that point outside it, links and devices are refused."""
    contents: dict[str, bytes] = {}
    total = 0
    try:
        for name, size, file in _members(archive):
            total += size
            if total > MOST_BYTES:
                raise PrunecastError(f"{archive} holds more than {MOST_BYTES >> 30} GiB; unpack it first.")
            contents[_plain(archive, name)] = file.read()
    except BROKEN as broken:
        raise PrunecastError(f"{archive} cannot be read ({broken}); fetch it again.") from broken
    return Archive(base=archive, contents=contents)


def _members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    return _zip_members(archive) if archive.suffix.lower() == ".zip" else _tar_members(archive)


def _tar_members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is not None:
                yield member.name, member.size, file
            elif not member.isdir():
                raise PrunecastError(_refusal(archive, member.name, "is a link or a device"))
            tar.members = []  # type: ignore[attr-defined]  # else every header read stays in memory


def _zip_members(archive: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PrunecastError(_refusal(archive, member.filename, "is a link or a device"))
            if not member.is_dir():
                with zipped.open(member) as file:
                    yield member.filename, member.file_size, file


def _plain(archive: Path, name: str) -> str:
    """Return a member's name without `./`; absolute names, drives and `..` are refused in either notation."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.anchor or ".." in windows.parts:
        raise PrunecastError(_refusal(archive, name, "points outside the archive"))
    return posix.as_posix()


def _refusal(archive: Path, name: str, why: str) -> str:
    return f"{archive} is refused: its member {name!r} {why}."

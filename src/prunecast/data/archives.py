"""Unpacking that cannot write outside its folder: it admits plain files under plain relative names only."""

import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import IO

from prunecast.errors import PrunecastError

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, EOFError, lzma.LZMAError, zlib.error, OSError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Say whether a path is named like an archive that can be unpacked."""
    return path.name.lower().endswith(SUFFIXES)


@contextmanager
def unpacked(archive: Path, beside: Path) -> Iterator[Path]:
    """Give a folder with the archive's files, made inside `beside` and removed at the end."""
    with TemporaryDirectory(prefix=".unpacked-", dir=beside) as folder:
        unpack(archive, Path(folder))
        yield Path(folder)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar (plain, gz, bz2, xz) or zip archive into an existing folder, or refuse it."""
    try:
        for name, file in _members(archive):
            target = _inside(archive, folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                shutil.copyfileobj(file, out)
    except BROKEN as broken:
        raise PrunecastError(
            f"{archive} cannot be unpacked ({broken}); fetch it again or free disk space."
        ) from broken


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    return _zip_members(archive) if archive.suffix.lower() == ".zip" else _tar_members(archive)


def _tar_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            if file is not None:
                yield member.name, file
            elif not member.isdir():
                raise PrunecastError(_refusal(archive, member.name, "is a link or a device"))


def _zip_members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as zipped:
        for member in zipped.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PrunecastError(_refusal(archive, member.filename, "is a link or a device"))
            if not member.is_dir():
                with zipped.open(member) as file:
                    yield member.filename, file


def _inside(archive: Path, folder: Path, name: str) -> Path:
    """Return where a member goes; absolute names, drives and `..` are refused in either notation."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.anchor or ".." in windows.parts:
        raise PrunecastError(_refusal(archive, name, "points outside the archive"))
    return folder / posix


def _refusal(archive: Path, name: str, why: str) -> str:
    return f"{archive} is refused: its member {name!r} {why}."

"""Files under relative names, in a folder or in an archive; archives are read, never unpacked to disk."""

import bz2
import gzip
import lzma
import os
import stat
import tarfile
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NoReturn, Protocol, cast

from prunecast.errors import PrunecastError

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".tbz2", ".zip")
COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\0": lzma.open,
    b"]\0\0\x80": lzma.open,
}
"""How compressed files begin, and what opens them."""
LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Headers of a tar that are read into memory whole."""
MOST_HEADER_BYTES = 1 << 20
MOST_BYTES = 8 << 30
"""A larger archive is not read into memory."""
MOST_EXPANSION = 200
"""Nor is one that expands to more than this many times its size (image files are already compressed) ..."""
HARMLESS_BYTES = 256 << 20
"""... unless it is no larger than this."""
CHUNK = 1 << 20
SMALL_CHUNK = 1 << 12
"""What is expanded at once where a compression sets no limit to the result."""
END_OF_ZIP_BYTES = 22
MANY_IN_ZIP = 0xFFFF
"""Stands for a number of members that needs more than two bytes."""


class Tree(Protocol):
    """Files under relative names with forward slashes."""

    @property
    def base(self) -> Path:
        """The folder or archive, to name a file in messages as base / name."""

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""

    def folders(self, under: str) -> Sequence[str]:
        """Return the names of the folders directly in a folder, `a/b/` or "" for the whole tree, sorted."""

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""

    def real(self, name: str) -> str:
        """Return an identity that two names of one file or folder share."""

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Files in a folder."""

    base: Path

    def names(self) -> Sequence[str]:
        """Return the names of all files at any depth, sorted.

        Links to folders are followed, but not back to a folder above, nor twice to one below the same second level.
        """
        try:
            return sorted(self._walk())
        except OSError as refused:
            _raise(refused)

    def folders(self, under: str) -> Sequence[str]:
        """Return the names of the folders directly in a folder, sorted."""
        try:
            with os.scandir(self.base / under) as entries:
                return sorted(entry.name for entry in entries if _is_folder(entry))
        except OSError as refused:
            _raise(refused)

    def _walk(self) -> Iterator[str]:
        waiting: deque[tuple[tuple[str, ...], frozenset[Identity]]] = deque([((), frozenset())])
        listed: set[tuple[tuple[str, ...], Identity]] = set()
        while waiting:
            parts, above = waiting.popleft()
            place = self.base.joinpath(*parts)
            identity, route = _identity(place.stat()), parts[:2]
            listed.add((route, identity))
            with os.scandir(place) as entries:
                for entry in sorted(entries, key=lambda entry: entry.is_symlink()):
                    inner = (*parts, entry.name)
                    if not _is_folder(entry):
                        yield "/".join(inner)
                        continue
                    target = _identity(entry.stat())
                    repeats = target in above | {identity} or (inner[:2], target) in listed
                    if not (entry.is_symlink() and repeats):
                        listed.add((inner[:2], target))
                        waiting.append((inner, above | {identity}))

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""
        return (self.base / name).is_file()

    def real(self, name: str) -> str:
        """Return what is the same for two names of one file or folder."""
        return os.path.realpath(self.base / name)

    def open(self, name: str) -> IO[bytes]:
        """Open a regular file for reading; a pipe would wait forever for a writer."""
        place = self.base / name
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as refused:
            _raise(refused)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise PrunecastError(f"{place} is not a regular file; remove it.")
        return os.fdopen(descriptor, "rb")


Identity = tuple[int, int]
"""Device and number of a folder, which all links to it share."""


def _identity(known: os.stat_result) -> Identity:
    return known.st_dev, known.st_ino


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself, for example; reading it will name it
        return False


@dataclass(frozen=True, kw_only=True)
class Archive:
    """The files of an archive, held in memory: faster than a hundred thousand small files on a disk."""

    base: Path
    contents: Mapping[str, bytes]

    def names(self) -> Sequence[str]:
        """Return the names of all files, sorted."""
        return sorted(self.contents)

    def folders(self, under: str) -> Sequence[str]:
        """Return the names of the folders with files directly in a folder, sorted."""
        below = [name[len(under) :] for name in self.contents if name.startswith(under)]
        return sorted({name.split("/")[0] for name in below if "/" in name})

    def has(self, name: str) -> bool:
        """Say whether there is a file of that name."""
        return name in self.contents

    def real(self, name: str) -> str:
        """Return what is the same for two names of one file or folder."""
        return name

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        return BytesIO(self.contents[name])


def _raise(refused: OSError) -> NoReturn:
    problem = f"{refused.filename} cannot be read ({refused.strerror})"
    raise PrunecastError(f"{problem}; make it readable, or remove it.") from refused


def is_archive(path: Path) -> bool:
    """Say whether a path is a file named like an archive that can be read."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def read_archive(archive: Path) -> Archive:
    """Read a tar (plain, gz, bz2, xz) or zip archive that is whole.

    Names that point outside it, links and devices are refused, and so is an archive that is cut short or that expands
    to far more than its size.
    """
    limit = min(MOST_BYTES, max(HARMLESS_BYTES, MOST_EXPANSION * archive.stat().st_size))
    contents: dict[str, bytes] = {}
    total = 0
    try:
        members = _zip_members if archive.suffix.lower() == ".zip" else _tar_members
        for name, data in members(archive, limit):
            total += len(data)
            if total > limit:
                raise TooLargeError
            contents[_plain(archive, name)] = data
    except PrunecastError:
        raise
    except TooLargeError:
        raise PrunecastError(_too_large(archive, limit)) from None
    except Exception as broken:  # damaged archives raise nearly anything
        reason = str(broken) or type(broken).__name__
        raise PrunecastError(f"{archive} cannot be read ({reason}); download it again.") from broken
    return Archive(base=archive, contents=contents)


def _too_large(archive: Path, limit: int) -> str:
    if limit == MOST_BYTES:
        return f"{archive} holds more than {MOST_BYTES >> 30} GiB; unpack it first."
    return f"{archive} expands to more than {MOST_EXPANSION} times its size; unpack it first if you trust it."


class TooLargeError(Exception):
    """An archive expands to more bytes than are read into memory."""


class _TarMember(tarfile.TarInfo):
    """A header of a tar; unlike tarfile's own, a damaged or missing one is never taken for the end."""

    @classmethod
    def fromtarfile(cls, tar: tarfile.TarFile) -> "_TarMember":
        try:
            return super().fromtarfile(tar)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise  # a block of zeros, as every whole tar ends
        except tarfile.HeaderError as broken:
            raise tarfile.ReadError(f"it is cut short or damaged: {broken}") from broken

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.size < 0:
            raise tarfile.ReadError("a header has a negative size")
        if self.type in LONG_HEADERS and max(self.size, len(tar.pax_headers)) > MOST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header is larger than {MOST_HEADER_BYTES >> 10} KiB")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


def _tar_members(archive: Path, limit: int) -> Iterator[tuple[str, bytes]]:
    with _decompressed(archive) as file, tarfile.open(fileobj=file, mode="r|", tarinfo=_TarMember) as tar:
        for member in tar:
            if member.isdir():
                continue
            if not member.isreg():
                raise PrunecastError(_refusal(archive, member.name, "is a link or a device"))
            if member.offset_data + member.size > limit:
                raise TooLargeError
            stored = tar.extractfile(member)
            yield member.name, stored.read() if stored is not None else b""
            tar.members = []  # type: ignore[attr-defined]  # else every header read stays in memory
        while rest := tar.fileobj.read(CHUNK):
            if rest.strip(b"\0"):
                raise tarfile.ReadError("data follow its end")


def _decompressed(archive: Path) -> IO[bytes]:
    """Open a tar; unlike tarfile's own streams, these check the sums at the end of the compressed data."""
    with archive.open("rb") as file:
        start = file.read(6)
    opening = next((opener for magic, opener in COMPRESSIONS.items() if start.startswith(magic)), open)
    return cast("IO[bytes]", opening(archive, "rb"))


def _zip_members(archive: Path, limit: int) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as zipped:
        _check_end(archive, zipped)
        for member in zipped.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise PrunecastError(_refusal(archive, member.filename, "is a link or a device"))
            if member.file_size > limit:
                raise TooLargeError
            data = _unzipped(zipped, member)  # folders, too: a damaged name can make a file look like one
            if not member.is_dir():
                yield member.filename, data
            elif data:
                raise zipfile.BadZipFile(f"the folder {member.filename} has content")


def _unzipped(zipped: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return a member, read in pieces, because its stated size may be wrong and memory must stay small."""
    bounded = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    with zipped.open(member) as file:
        data = b"".join(iter(lambda: file.read(CHUNK if bounded else SMALL_CHUNK), b""))
    if len(data) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} has {len(data)} bytes instead of {member.file_size}")
    return data


def _check_end(archive: Path, zipped: zipfile.ZipFile) -> None:
    """Refuse a zip that does not end with its own directory, or has fewer members than are counted there."""
    with archive.open("rb") as file:
        file.seek(-(END_OF_ZIP_BYTES + len(zipped.comment)), os.SEEK_END)
        end = file.read()
    count, comment_bytes = (int.from_bytes(end[at : at + 2], "little") for at in (10, 20))
    if not end.startswith(b"PK\5\6") or comment_bytes != len(zipped.comment):
        raise zipfile.BadZipFile("it is cut short")
    if count not in (len(zipped.infolist()), MANY_IN_ZIP):
        raise zipfile.BadZipFile(f"it lists {len(zipped.infolist())} of {count} members")


def _plain(archive: Path, name: str) -> str:
    """Return a member's name without `./`; absolute names, drives and `..` are refused in either notation."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.anchor or ".." in windows.parts:
        raise PrunecastError(_refusal(archive, name, "points outside the archive"))
    return posix.as_posix()


def _refusal(archive: Path, name: str, why: str) -> str:
    return f"{archive}: its member {name!r} {why}; download it again, or pack the images anew without it."

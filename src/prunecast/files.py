"""Files: read safely, written complete or not at all; and JSON that every parser reads."""

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
import sys
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError, UnreadableError

TEMPORARY = ".tmp"
LONGEST_NAME = 255
"""Bytes that a file's name may have on most file systems."""
RENAMES = 20
"""How often a file is rewritten if another process removes its unfinished copy as a leftover."""
LARGEST_STREAM = 1 << 30
"""The most bytes that are read from a pipe or a device, which may never end."""


def check_folder(path: Path | None) -> None:
    """Refuse an output path whose folder does not exist, before any work is done."""
    if path is not None and not os.path.isdir(path.absolute().parent):  # noqa: PTH112 (Path.is_dir may raise)
        raise PrunecastError(
            f"{path} cannot be written: there is no folder {path.absolute().parent}; create it first."
        )


def replace_file(path: Path, data: bytes, *, wait: bool = True) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part.

    The new content is written to a temporary file, synced and renamed. For a link, the file that it leads to is
    replaced. Files that are not regular, such as /dev/null or a pipe, and this process's own output are written to
    directly. A pipe that nobody reads is an OSError unless `wait`.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    if found is not None and (descriptor := _own_output(found)) is not None:
        _write_all(descriptor, data)
    elif found is not None and not stat.S_ISREG(found.st_mode):
        own = os.open(path, os.O_WRONLY) if wait else open_at_once(path, os.O_WRONLY)
        with os.fdopen(own, "wb", buffering=0) as file:
            _write_all(file.fileno(), data)
    else:
        _replace_regular(Path(os.path.realpath(path)), data)


def is_standard_output(path: Path) -> bool:
    """Whether a file is this process's standard output, where messages must then not be printed."""
    try:
        return _own_output(path.stat()) == 1
    except OSError:
        return False


def _own_output(found: os.stat_result) -> int | None:
    """The descriptor of standard output or standard error, if this is its file; flushes the stream."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):  # closed
            if stream is not None and os.path.samestat(found, os.fstat(descriptor)):
                stream.flush()
                return descriptor
    return None


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _replace_regular(path: Path, data: bytes) -> None:
    temporary = path.with_name(_temporary_name(path.name))
    try:
        _write_and_rename(temporary, path, data)
        sync(path.parent)
    except OSError:
        with contextlib.suppress(OSError):  # a read-only file system refuses this, too
            temporary.unlink(missing_ok=True)
        raise


def _temporary_name(name: str) -> str:
    """A hidden name of this process; a name near the limit of the file system is shortened to its digest."""
    own = f".{name}.{os.getpid()}{TEMPORARY}"
    if len(os.fsencode(own)) <= LONGEST_NAME:
        return own
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()}.{os.getpid()}{TEMPORARY}"


def _write_and_rename(temporary: Path, path: Path, data: bytes) -> None:
    for left in reversed(range(RENAMES)):
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            temporary.replace(path)
        except FileNotFoundError:  # another process that removes leftovers has just taken this file for one
            if not left:
                raise
        else:
            return


def read_file(path: Path) -> bytes:
    """The content of a regular file.

    Raises a FileNotFoundError where there is none, a ValueError where it is not a regular file (a pipe would keep the
    reader waiting), and an UnreadableError where it may not be read.
    """
    try:
        with os.fdopen(open_at_once(path, os.O_RDONLY), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")
            return file.read()
    except FileNotFoundError:
        raise
    except (IsADirectoryError, NotADirectoryError) as failure:
        raise ValueError("it is not a regular file") from failure
    except OSError as failure:
        raise unreadable(path, failure) from failure


def read_input(path: Path) -> bytes:
    """The content of a file that a user named, which may be a pipe such as /dev/stdin.

    A pipe that no process writes to, and a device that does not end, are an OSError.
    """
    with os.fdopen(open_at_once(path, os.O_RDONLY), "rb", buffering=0) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.readall()
        first = file.read(1)  # None if a process writes to the pipe, but has not yet written anything
        if first == b"" and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EPIPE, "it is a pipe that no process writes to", str(path))
        os.set_blocking(file.fileno(), True)
        with os.fdopen(os.dup(file.fileno()), "rb") as rest:
            data = (first or b"") + rest.read(LARGEST_STREAM)
    if len(data) >= LARGEST_STREAM:
        raise OSError(errno.EFBIG, "it is a device or a pipe that does not end", str(path))
    return data


def open_at_once(path: Path, flags: int) -> int:
    """The descriptor of a file; does not wait for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)


def is_there(path: Path) -> bool:
    """Whether the file exists; an UnreadableError if its folder cannot be searched."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as failure:
        if failure.errno == errno.ENAMETOOLONG:  # a path that nobody can use
            raise
        raise unreadable(path, failure) from failure
    return True


def unreadable(path: Path, failure: OSError) -> UnreadableError:
    """The error for a file that cannot be read but may be intact."""
    if failure.errno in (errno.EACCES, errno.EPERM):
        remedy = "ask its owner for permission to read it, or run this as the user who wrote it"
    else:
        remedy = "check the disk or the network file system, and run the same command again"
    return UnreadableError(f"{path} cannot be read: {failure.strerror}; {remedy}. Delete nothing.")


def sync(path: Path) -> None:
    """Flush a file, or a folder's list of names so that a rename survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Delete unfinished files of killed processes."""
    for leftover in folder.glob(f".*{TEMPORARY}"):
        with contextlib.suppress(OSError):  # gone already, or not to be removed
            leftover.unlink()


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all; parts of file names that are not UTF-8 become escapes."""
    try:
        replace_file(path, text.encode(errors="backslashreplace"))
    except OSError as error:
        raise PrunecastError(f"{path} cannot be written: {error.strerror}; choose another path") from error


def dumps(body: object, *, indent: int | None = None) -> str:
    """JSON without NaN and infinities, which become null; NumPy arrays and numbers are allowed.

    Parts of file names that are not UTF-8 are written as escapes, so that every stream takes the text.
    """
    text = json.dumps(_plain(body), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode(errors="backslashreplace").decode()


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if hasattr(value, "tolist"):  # a NumPy array or number
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

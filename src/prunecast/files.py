"""Writing results: files that are complete or absent, and JSON that every parser reads."""

import json
import math
import os
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError

TEMPORARY = ".tmp"


def check_folder(path: Path | None) -> None:
    """Refuse an output path whose folder does not exist, before any work is done."""
    if path is not None and not path.absolute().parent.is_dir():
        raise PrunecastError(
            f"{path} cannot be written: there is no folder {path.absolute().parent}; create it first."
        )


def replace_file(path: Path, data: bytes) -> None:
    """Write a temporary file, sync it and rename it: a reader sees the old file or the new one, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY}")
    try:
        try:
            _write_and_rename(temporary, path, data)
        except FileNotFoundError:  # another process has just removed leftovers, and took this one for its own
            _write_and_rename(temporary, path, data)
        sync_folder(path.parent)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _write_and_rename(temporary: Path, path: Path, data: bytes) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def sync_folder(folder: Path) -> None:
    """Flush a folder's list of names, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Delete what killed processes had not finished writing."""
    for leftover in folder.glob(f".*{TEMPORARY}"):
        leftover.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, complete or not at all."""
    try:
        replace_file(path, text.encode())
    except OSError as error:
        raise PrunecastError(f"{path} cannot be written: {error.strerror}; choose another path") from error


def dumps(body: object, *, indent: int | None = None) -> str:
    """JSON without NaN and infinities, which become null; NumPy arrays and numbers are allowed."""
    return json.dumps(_plain(body), ensure_ascii=False, allow_nan=False, indent=indent)


def _plain(value: Any) -> object:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if hasattr(value, "tolist"):  # a NumPy array or number
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

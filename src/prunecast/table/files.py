"""A file on disk as bytes, and the kind of table it holds; what is no table is refused in words."""

import gzip
import io
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from prunecast.table.errors import TableError
from prunecast.table.rows import Rows
from prunecast.table.text import read_text

_BINARY = {
    b"PK\x03\x04": "a zip archive or spreadsheet; save the sheet as CSV",
    b"\xfd7zXZ\x00": "xz-compressed; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; unpack it, or compress it with gzip",
    b"BZh": "bzip2-compressed; unpack it, or compress it with gzip",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}


def read_file(path: Path) -> tuple[pd.DataFrame, Rows]:
    """The file's columns as they stand, and the place of every row."""
    label = str(path)
    data = _bytes(path, label)
    if path.suffix.lower() in (".parquet", ".pq") or data.startswith(b"PAR1"):
        return _parquet(data, label)
    if data.startswith(b"\x1f\x8b"):
        data = _unzip(data, label)
    elif path.suffix.lower() == ".gz" and data:
        raise TableError(f"{label} is not gzip-compressed although its name ends in .gz; rename it")
    _refuse_binary(data, label)
    return read_text(data, label)


def _bytes(path: Path, label: str) -> bytes:
    try:
        data = path.read_bytes()
    except IsADirectoryError:
        raise TableError(f"{label} is a folder; name the table's file inside it") from None
    except PermissionError:
        raise TableError(f"{label} may not be read; ask for permission to read it") from None
    except (OSError, ValueError) as problem:
        raise TableError(f"{label} cannot be read: {problem}") from None
    if not data:
        raise TableError(f"{label} is empty; a table needs a header and at least one row")
    return data


def _unzip(data: bytes, label: str) -> bytes:
    try:
        text = gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        raise TableError(f"{label} is a truncated or damaged gzip file; copy it again") from None
    if not text:
        raise TableError(f"{label} is empty; a table needs a header and at least one row")
    return text


def _refuse_binary(data: bytes, label: str) -> None:
    for magic, kind in _BINARY.items():
        if data.startswith(magic):
            raise TableError(f"{label} is no table of text but {kind}")
    if b"\x00" in data:
        raise TableError(f"{label} is no table but a binary file; a table is CSV, TSV or Parquet")


def _parquet(data: bytes, label: str) -> tuple[pd.DataFrame, Rows]:
    if not (data.startswith(b"PAR1") and data.endswith(b"PAR1")):
        raise TableError(f"{label} is truncated, or no Parquet file; write or copy it again")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise TableError(
            f"{label}: reading Parquet needs pyarrow; pip install 'prunecast[parquet]', or save as CSV"
        ) from None
    try:
        frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except Exception as problem:  # pyarrow has many exceptions of its own for a damaged file
        reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
        raise TableError(f"{label} is a damaged Parquet file ({reason}); copy it again") from None
    return frame, Rows(label=label, unit="row", places=np.arange(1, len(frame) + 1))

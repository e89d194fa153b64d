"""Delimited text (comma, semicolon or tab) as columns, with the line number of every row."""

import csv
import io
from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.table.columns import NAMES, synonyms
from prunecast.table.errors import TableError
from prunecast.table.rows import Rows
from prunecast.text import normalized

Integers = npt.NDArray[np.int64]
# Decimals must come back as the very number that was written; from pandas 3.1 on that is the default.
_EXACT = tuple(int(part) for part in pd.__version__.split(".")[:2]) >= (3, 1)
_PANDAS: Callable[..., pd.DataFrame] = pd.read_csv
_read_csv = _PANDAS if _EXACT else partial(_PANDAS, float_precision="round_trip")
_WORDS = {normalized(word) for name in NAMES for word in (name, *synonyms(name, "error")[0])}


def read_text(data: bytes, label: str) -> tuple[pd.DataFrame, Rows]:
    """Parse delimited text; lines with too few or too many fields are refused by number."""
    text = _utf8(data, label)
    separator, header = _header(text, label)
    lines, fields = _quoted(text, separator, label) if b'"' in text else _unquoted(text, separator)
    _refuse_ragged(lines, fields, len(header), label)
    if len(lines) == 1:
        raise TableError(f"{label} has a header but no rows; a table needs at least one row")
    frame = _parse(text, separator, header, label)
    if len(frame) != len(lines) - 1:
        raise TableError(f"{label} cannot be split into rows; save it as plain CSV again")
    return frame, Rows(label=label, unit="line", places=lines[1:])


def _utf8(data: bytes, label: str) -> bytes:
    """The text without byte-order mark and with plain line ends."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as problem:
            line = data.count(b"\n", 0, problem.start) + 1
            raise TableError(f"{label}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.strip():
        raise TableError(f"{label} is empty; a table needs a header and at least one row")
    return data


def _header(text: bytes, label: str) -> tuple[str, list[str]]:
    """The separator that splits the first line into most fields, and the column names."""
    start = text.lstrip()
    if start[:1] in b"{[<":
        kind = "HTML or XML" if start[:1] == b"<" else "JSON"
        raise TableError(f"{label} is no table but {kind}; a table is CSV, TSV or Parquet")
    first = text.lstrip(b"\n ").split(b"\n", 1)[0].decode("utf-8")
    separator = max(",;\t", key=first.count)
    try:
        names = next(csv.reader([first], delimiter=separator, skipinitialspace=True))
    except csv.Error as problem:
        raise TableError(f"{label} is no table: its first line cannot be split ({problem})") from None
    if len(names) < 2:
        raise TableError(
            f"{label} is no table: its first line, {first[:60]!r}, is a single column;"
            " separate columns by comma, semicolon or tab"
        )
    names = [name.strip() or f"unnamed_{i + 1}" for i, name in enumerate(names)]
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{label}: two columns are called {repeated[0]}; rename one")
    return separator, names


def _unquoted(text: bytes, separator: str) -> tuple[Integers, Integers]:
    """Line number and number of fields of every line that is not blank, header included."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.r_[0, ends[:-1] + 1]
    separators = np.flatnonzero(data == ord(separator))
    bounds = np.searchsorted(separators, ends)
    fields = np.diff(bounds, prepend=0) + 1
    written = ends > starts
    for line in np.flatnonzero((fields == 1) & written):
        written[line] = bool(text[starts[line] : ends[line]].strip())
    return np.flatnonzero(written) + 1, fields[written]


def _quoted(text: bytes, separator: str, label: str) -> tuple[Integers, Integers]:
    """The same where fields may be quoted and hold separators or line ends."""
    reader = csv.reader(
        io.StringIO(text.decode("utf-8"), newline=""), delimiter=separator, skipinitialspace=True, strict=True
    )
    found, line = [], 1
    try:
        for record in reader:
            if record and (len(record) > 1 or record[0].strip()):
                found.append((line, len(record)))
            line = reader.line_num + 1
    except csv.Error:
        raise TableError(f"{label}, line {line}: a quoted field does not end as it should") from None
    table = np.asarray(found, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _refuse_ragged(lines: Integers, fields: Integers, expected: int, label: str) -> None:
    bad = np.flatnonzero(fields != expected)
    if not len(bad):
        return
    at = int(bad[0])
    last = at == len(lines) - 1 and fields[at] < expected
    remedy = "the file looks truncated: copy it again" if last else "correct that line"
    raise TableError(
        f"{label}, line {lines[at]}: {fields[at]} field{'s' if fields[at] > 1 else ''}"
        f" where the header has {expected}; {remedy}"
    )


def _parse(text: bytes, separator: str, header: list[str], label: str) -> pd.DataFrame:
    start = len(text) - len(text.lstrip(b"\n "))
    try:
        return _read_csv(
            io.BytesIO(text[start:]),
            sep=separator,
            names=header,
            header=0,
            index_col=False,
            dtype={name: "category" for name in header if normalized(name) in _WORDS},
            skipinitialspace=True,
            low_memory=False,
        )
    except (pd.errors.ParserError, ValueError, OverflowError) as problem:
        raise TableError(f"{label} cannot be parsed as a table ({problem}); save it as plain CSV") from None

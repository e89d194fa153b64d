"""Files as raw columns: CSV, TSV and Parquet, with the line or row number of every row."""

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from prunecast.errors import TableError, first_line
from prunecast.files import read_input
from prunecast.metric import Metric
from prunecast.table.columns import NAMES, synonyms
from prunecast.text import decimal_commas, normalized, plural, without_separator_line

Integers = npt.NDArray[np.int64]
LARGEST_TEXT = 256 << 20
"""The largest unpacked size of a compressed table in bytes: about three million rows."""
MOST_VALUES = 50_000_000
"""The largest number of values of a Parquet file; few repeated bytes can encode any number."""
_BINARY = {
    b"PK\x03\x04": "a zip archive or a spreadsheet; save the sheet as CSV",
    b"\xfd7zXZ\x00": "xz-compressed; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "zstd-compressed; unpack it, or compress it with gzip",
    b"BZh": "bzip2-compressed; unpack it, or compress it with gzip",
    b"\xff\xfe": "UTF-16 text; save it as UTF-8",
    b"\xfe\xff": "UTF-16 text; save it as UTF-8",
}
# Decimals must be read exactly, which is the default from pandas 3.1.
_EXACT = tuple(int(part) for part in pd.__version__.split(".")[:2]) >= (3, 1)
_PANDAS: Callable[..., pd.DataFrame] = pd.read_csv
_read_csv = _PANDAS if _EXACT else partial(_PANDAS, float_precision="round_trip")
_TEXT = {normalized(word) for name in NAMES for word in (name, *synonyms(name, Metric.ERROR)[0])}
"""Columns of names, which have few distinct values."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where each row came from, so that a refusal names the file and the row."""

    label: str
    """the file, as messages call it"""
    unit: str
    """"line" of a text file, whose header is line 1, or "row" of a DataFrame or Parquet file, counted from 1"""
    numbers: Integers
    headings: Mapping[str, str] = field(default_factory=dict)
    """the file's own names of canonical columns"""

    def keep(self, chosen: npt.NDArray[np.bool_]) -> "Places":
        """The places of the chosen rows."""
        return self.at(self.numbers[chosen])

    def at(self, numbers: Integers) -> "Places":
        """The places of rows with these numbers."""
        return replace(self, numbers=numbers)

    def place(self, row: int) -> str:
        """A row as text: "line 7"."""
        return f"{self.unit} {self.numbers[row]}"

    def heading(self, column: str) -> str:
        """The file's own name of a canonical column."""
        return self.headings.get(column, column)

    def refuse(self, bad: npt.NDArray[np.bool_], problem: str) -> NoReturn:
        """Raise for the first bad row, and say how many more there are."""
        more = int(bad.sum()) - 1
        others = f" (and {more:,} more {self.unit}{'s' * (more > 1)})" if more else ""
        raise TableError(f"{self.label}, {self.place(int(np.argmax(bad)))}{others}: {problem}")


def numbered(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, Places]:
    """A frame whose rows are counted from 1."""
    return frame, Places(label=label, unit="row", numbers=np.arange(1, len(frame) + 1))


def read_file(path: Path) -> tuple[pd.DataFrame, Places]:
    """The file's columns unchanged, and the place of every row."""
    label = str(path)
    data = _bytes(path)
    if path.suffix.lower() in (".parquet", ".pq") or data.startswith(b"PAR1"):
        return numbered(_parquet(data, label), label)
    if data.startswith(b"\x1f\x8b"):
        data = _unpacked(data, label)
    elif path.suffix.lower() == ".gz" and data:
        raise TableError(f"{label} is not gzip-compressed although its name ends in .gz; rename it.")
    for magic, kind in _BINARY.items():
        if data.startswith(magic):
            raise TableError(f"{label} is not a text table but {kind}.")
    if b"\x00" in data:
        raise TableError(f"{label} is a binary file, not a table; a table is CSV, TSV or Parquet.")
    return _text(data, label)


def _unpacked(data: bytes, label: str) -> bytes:
    """The content of a gzip file, refused where it would fill the memory."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            text = file.read(LARGEST_TEXT + 1)
    except (EOFError, OSError, zlib.error):
        raise TableError(f"{label} is a truncated or damaged gzip file; copy it again.") from None
    if len(text) > LARGEST_TEXT:
        raise TableError(
            f"{label} unpacks to more than {LARGEST_TEXT >> 20} MiB, which is too much for a table. Keep the rows and "
            "columns that you need, or unpack it yourself."
        )
    return text


def _bytes(path: Path) -> bytes:
    try:
        return read_input(path)
    except IsADirectoryError:
        raise TableError(f"{path} is a folder; give the file of the table inside it.") from None
    except PermissionError:
        raise TableError(
            f"{path} cannot be read: permission denied; ask for permission to read it."
        ) from None
    except OSError as problem:
        raise TableError(f"{path} cannot be read: {problem.strerror}.") from None
    except ValueError as problem:  # a name with a zero byte
        raise TableError(f"{path} cannot be read: {problem}.") from None


def _parquet(data: bytes, label: str) -> pd.DataFrame:
    if not (data.startswith(b"PAR1") and data.endswith(b"PAR1")):
        raise TableError(f"{label} is truncated, or not a Parquet file; write or copy it again.")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise TableError(
            f"{label}: reading Parquet needs pyarrow; pip install 'prunecast[parquet]', or save the table as CSV."
        ) from None
    try:
        return _parquet_frame(data, label)
    except TableError:
        raise
    except Exception as problem:  # pyarrow has many exceptions of its own for a damaged file
        raise TableError(
            f"{label} is a damaged Parquet file ({first_line(problem)}); copy it again."
        ) from None


def _parquet_frame(data: bytes, label: str) -> pd.DataFrame:
    """The columns of a Parquet file that fits into memory.

    Texts are read as categories first, to find the total length without storing each text many times.
    """
    import pyarrow.parquet as pq

    file = pq.ParquetFile(io.BytesIO(data))
    groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
    chunks = [group.column(at) for group in groups for at in range(group.num_columns)]
    values, size = sum(own.num_values for own in chunks), sum(own.total_uncompressed_size for own in chunks)
    if values > MOST_VALUES or size > LARGEST_TEXT or file.metadata.num_rows > MOST_VALUES:
        raise TableError(
            f"{label} unpacks to {values:,} values of {size >> 20:,} MiB; a table may have {MOST_VALUES:,} values of "
            f"{LARGEST_TEXT >> 20} MiB in all. Keep the rows and columns that you need."
        )
    texts = [field.name for field in file.schema_arrow if str(field.type) in _TEXT_TYPES]
    frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow", read_dictionary=texts)
    again = {name: frame[name] for name in texts if name in frame.columns}
    length = sum(_length(column) for column in again.values())
    if length > LARGEST_TEXT:
        raise TableError(
            f"{label} unpacks to {length >> 20:,} MiB of text, which is too much for a table. Remove long texts."
        )
    return frame.assign(**{name: column.astype(object) for name, column in again.items()})


def _length(column: "pd.Series[Any]") -> int:
    """The length of all texts of a categorical column."""
    if not isinstance(column.dtype, pd.CategoricalDtype):
        return 0
    lengths = np.array([*(len(text) for text in column.cat.categories), 0], dtype=np.int64)
    return int(lengths[column.cat.codes.to_numpy()].sum())


_TEXT_TYPES = ("string", "large_string", "binary", "large_binary")


def _text(data: bytes, label: str) -> tuple[pd.DataFrame, Places]:
    """Parse delimited text; a line with too few or too many fields is refused by its number."""
    text = _utf8(data, label)
    separator, header = _header(text, label)
    lines, fields = _quoted_lines(text, separator, label) if b'"' in text else _plain_lines(text, separator)
    _refuse_uneven(lines, fields, len(header), label)
    if len(lines) == 1:
        raise TableError(f"{label} has a header but no rows; a table needs at least one row.")
    try:
        frame = _read_csv(
            io.BytesIO(text.lstrip(b"\n ")),
            sep=separator,
            decimal="," if separator != "," and decimal_commas(text) else ".",
            names=header,
            header=0,
            index_col=False,
            dtype={name: "category" for name in header if normalized(name) in _TEXT},
            skipinitialspace=True,
            low_memory=False,
        )
    except (pd.errors.ParserError, ValueError, OverflowError) as problem:
        raise TableError(f"{label} cannot be parsed as a table ({problem}); save it as plain CSV.") from None
    if len(frame) != len(lines) - 1:
        raise TableError(f"{label} cannot be split into rows; save it as plain CSV again.")
    places = Places(label=label, unit="line", numbers=lines[1:])
    filled = frame.notna().any(axis=1).to_numpy()  # spreadsheets write rows of separators alone
    if filled.all():
        return frame, places
    return frame[filled].reset_index(drop=True), places.keep(filled)


def _utf8(data: bytes, label: str) -> bytes:
    """The text with plain line ends, without a byte-order mark and the line by which Excel names the separator."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.isascii() or data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data.count(b"\n", 0, problem.start) + 1
        raise TableError(f"{label}, line {line}: this is not UTF-8 text; save the file as UTF-8.") from None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data = without_separator_line(data)
    if not data.strip():
        raise TableError(f"{label} is empty; a table needs a header and at least one row.")
    return data


def _header(text: bytes, label: str) -> tuple[str, list[str]]:
    """The separator that splits the first line into the most fields, and the column names."""
    start = text.lstrip()[:1]
    if start in b"{[<":
        kind = "HTML or XML" if start == b"<" else "JSON"
        law = " If it is a saved law, its name must end in .json."
        law = law if kind == "JSON" and not label.endswith(".json") else ""
        raise TableError(f"{label} is {kind}, not a table; a table is CSV, TSV or Parquet.{law}")
    first = text.lstrip(b"\n ").split(b"\n", 1)[0].decode("utf-8")
    separator = max(",;\t", key=first.count)
    try:
        names = next(csv.reader([first], delimiter=separator, skipinitialspace=True))
    except csv.Error as problem:
        raise TableError(f"{label} is not a table: its first line cannot be split ({problem}).") from None
    if len(names) < 2:
        raise TableError(
            f"{label} is not a table: its first line, {first[:60]!r}, is a single column."
            " Separate columns by comma, semicolon or tab."
        )
    names = [name.strip() or f"unnamed_{i + 1}" for i, name in enumerate(names)]
    refuse_repeated(names, label)
    return separator, names


def refuse_repeated(names: list[str], label: str) -> None:
    """Refuse two columns with the same name."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{label}: two columns are called {repeated[0]}; rename one.")


def _plain_lines(text: bytes, separator: str) -> tuple[Integers, Integers]:
    """Line number and number of fields of every line that is not blank, the header included."""
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not text.endswith(b"\n"):
        ends = np.append(ends, len(data))
    starts = np.r_[0, ends[:-1] + 1]
    before = np.searchsorted(np.flatnonzero(data == ord(separator)), ends)
    fields = np.diff(before, prepend=0) + 1
    written = ends > starts
    for line in np.flatnonzero((fields == 1) & written):
        written[line] = bool(text[starts[line] : ends[line]].strip())
    return np.flatnonzero(written) + 1, fields[written]


def _quoted_lines(text: bytes, separator: str, label: str) -> tuple[Integers, Integers]:
    """`_plain_lines` for text with quoted fields, which may contain separators or line ends; half as fast."""
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
        raise TableError(
            f"{label}, line {line}: a quoted field is not closed properly; correct it."
        ) from None
    table = np.asarray(found, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _refuse_uneven(lines: Integers, fields: Integers, expected: int, label: str) -> None:
    bad = np.flatnonzero(fields != expected)
    if len(bad):
        at = int(bad[0])
        last = at == len(lines) - 1 and fields[at] < expected
        remedy = "The file looks truncated: copy it again." if last else "Correct that line."
        raise TableError(
            f"{label}, line {lines[at]}: {plural(int(fields[at]), 'field')}, but the header has {expected}. {remedy}"
        )

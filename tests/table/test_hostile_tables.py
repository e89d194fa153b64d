"""Tables that would give wrong counts, fill the memory or never end."""

import gzip
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from prunecast.table import TableError, read

DENSITIES = [0.8**level for level in range(12)]
PLAIN = pd.DataFrame({"density": DENSITIES, "error": np.linspace(0.1, 0.4, 12)})
WEIGHTS = 270_000


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"weights": 27}, r"weights is 27, but density is 0\.\d+, so no whole number of them is that share"),
        ({"weights": 5}, r"weights is 5, but density is 0\.\d+, so fewer than one would be left"),
        ({"weights": 0.27}, r"weights is 0\.27, but a count of weights is a whole number"),
        ({"nonzero": 0.27 * PLAIN["density"]}, r"nonzero is 0\.27, but a count of weights is a whole number"),
        (
            {"weights": 1 << 20, "parameters": 2000},
            r"parameters is 2000, but weights is 1,048,576, and both count",
        ),
        ({"weights": 1200, "parameters": WEIGHTS * 1000}, r"weights is 1200, but parameters is 270,000,000"),
        (
            {"weights": WEIGHTS * 1000, "nonzero": 27000 * PLAIN["density"]},
            r"nonzero is 27000, but weights is 270,000,000",
        ),
        ({"weights": WEIGHTS, "bytes": 1080}, r"bytes is 1080, but weights is 270,000, and both count"),
        ({"weights": WEIGHTS, "bytes": 1.08}, r"bytes is 1\.08, but weights is 270,000, and both count"),
        ({"weights": WEIGHTS, "multiply_adds": 41.2}, r"multiply_adds is 41\.2, but weights is 270,000"),
        (
            {"weights": WEIGHTS, "remaining_parameters": 0.27},
            r"remaining_parameters is 0\.27, but weights is 270,000",
        ),
        ({"weights": 1200, "bytes": 4e6}, r"weights is 1200, but bytes is 4,000,000"),
    ],
)
def test_counts_in_another_unit_are_refused_with_the_option(columns: dict[str, object], words: str) -> None:
    with pytest.raises(TableError, match=words) as refused:
        read(PLAIN.assign(**columns))
    column = words.split(" ", 1)[0]
    assert f"use --column '{column}={column}*1000" in str(refused.value)


def test_the_option_makes_counts_of_millions() -> None:
    frame = PLAIN.assign(weights=0.275154)
    table = read(frame, columns={"weights": "weights*1000000"})
    np.testing.assert_allclose(table.frame["weights"], 275154)


@pytest.mark.parametrize(
    "columns",
    [
        {"weights": WEIGHTS, "parameters": WEIGHTS, "nonzero": np.round(WEIGHTS * PLAIN["density"])},
        {"weights": WEIGHTS, "nonzero": np.nan},
        {"nonzero": 1234.5},
        {"weights": WEIGHTS, "bytes": 4 * WEIGHTS, "multiply_adds": 41_000_000},
        {"weights": WEIGHTS, "remaining_parameters": WEIGHTS + 2000},
        {"weights": WEIGHTS, "bytes": WEIGHTS / 8, "latency_ms": [1.5, np.nan, *[0.1] * 10]},
        {"latency_ms": [1.5, np.nan, *[0.1] * 10], "timed_with": ["torch-1-1", "onnx-1-1", *[None] * 10]},
        {"weights": 27, "density": [round(27 * own) / 27 for own in DENSITIES]},
    ],
)
def test_counts_that_agree_are_read(columns: dict[str, object]) -> None:
    assert len(read(PLAIN.assign(**columns))) == len(DENSITIES)


CODE = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
from prunecast.table import TableError, read
try:
    read(sys.argv[1])
except TableError as problem:
    print(problem)
"""


def refused_in_little_memory(path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"latency_ms": -3}, "row 1 .and 11 more rows.: latency_ms is -3, but it must be greater than 0"),
        ({"latency_ms": [1.5] * 11 + ["5ms"]}, "row 12: latency_ms is '5ms', which is not a number"),
        ({"bytes": [4e6] * 11 + [0]}, "row 12: bytes is 0, but it must be greater than 0"),
        ({"bytes": 1e-300}, "bytes is 1e-300, but it must not be smaller than 1e-12"),
        ({"multiply_adds": 1e300}, r"multiply_adds is 1e\+300, but it must not be larger than 1e\+15"),
        (
            {"latency_ms": 1.5, "timed_with": ["torch-1-1", "onnx-64-1"] * 6},
            "timed_with is 'torch-1-1' in some rows and 'onnx-64-1' in others, .* --where timed_with=torch-1-1",
        ),
    ],
)
def test_impossible_costs_are_refused(columns: dict[str, object], words: str) -> None:
    with pytest.raises(TableError, match=words):
        read(PLAIN.assign(**columns))


@pytest.mark.parametrize(
    "columns", [{"family": ["a\nb", "c"] * 6}, {"latency_ms": 1.5, "timed_with": ["a\nb", "c"] * 6}]
)
def test_cells_with_line_breaks_stay_on_one_line(columns: dict[str, object]) -> None:
    with pytest.raises(TableError) as refused:
        read(PLAIN.assign(**columns))
    assert str(refused.value).isprintable()
    assert r"a\nb" in str(refused.value)


def test_a_small_gzip_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"density,error\n")
        for _ in range(600):
            file.write(b"0.500000,0.2\n" * 80_000)
    assert path.stat().st_size < 10 << 20
    assert "unpacks to more than 256 MiB" in refused_in_little_memory(path)


def test_a_small_parquet_file_cannot_fill_the_memory(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "bomb.parquet"
    part = pa.table({"density": np.ones(10_000_000), "error": np.full(10_000_000, 0.5)})
    with pq.ParquetWriter(path, part.schema) as file:
        for _ in range(10):
            file.write_table(part)
    assert path.stat().st_size < 4 << 20
    assert "unpacks to 200,000,000 values" in refused_in_little_memory(path)


def test_a_long_text_that_is_repeated_cannot_fill_the_memory(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "texts.parquet"
    rows = 20_000
    note = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(rows, dtype=np.int32)), pa.array(["x" * 1_000_000])
    )
    schema = pa.schema([("density", pa.float64()), ("error", pa.float64()), ("note", note.type)])
    values = [pa.array(np.linspace(1, 0.1, rows)), pa.array(np.full(rows, 0.5)), note]
    pq.write_table(pa.Table.from_arrays(values, schema=schema), path, store_schema=False)
    assert path.stat().st_size < 4 << 20
    assert "unpacks to 19,073 MiB of text" in refused_in_little_memory(path)


def test_extra_columns_take_linear_time() -> None:
    def seconds(columns: int) -> float:
        extra = pd.DataFrame(np.zeros((12, columns)), columns=[f"extra_{at}" for at in range(columns)])
        frame = pd.concat([PLAIN, extra], axis=1)
        start = time.process_time()
        read(frame)
        return time.process_time() - start

    seconds(10)
    assert seconds(16_000) < 10 * max(seconds(4_000), 0.1)


def test_files_that_are_not_utf8_are_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_bytes("density,error,Größe\n1,0.1,2\n".encode("latin-1"))
    with pytest.raises(TableError, match="line 1: this is not UTF-8 text; save the file as UTF-8"):
        read(path)


def test_a_table_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "runs.csv")
    with pytest.raises(TableError, match=r"runs\.csv cannot be read: it is a pipe that no process writes to"):
        read(tmp_path / "runs.csv")


def test_sizes_beyond_64_bits_are_refused() -> None:
    words = r"depth is 9\.22337e\+18, but it must not be larger than 1e\+15"
    with pytest.raises(TableError, match=words):
        read(PLAIN.assign(depth=float(2**63)))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("9" * 400, r"line 3: depth is inf, but it must not be larger than 1e\+15\. Correct it"),
        ("-" + "9" * 400, r"line 3: depth is -inf, but it must be greater than 0\."),
        ("9" * 5000, r"line 3: depth is '9{59}\.\.\., which is not a number"),
    ],
)
def test_numbers_that_no_float_holds_are_refused_briefly(tmp_path: Path, cell: str, words: str) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"depth,density,error\n20,1,0.1\n{cell},0.5,0.2\n")
    with pytest.raises(TableError, match=words):
        read(path)


def test_columns_are_found_in_spite_of_what_nobody_sees(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text("den\u200bsity,error\ufeff\n1,0.1\n0.5,0.2\n", encoding="utf-8")
    assert read(path).frame["error"].tolist() == [0.1, 0.2]

"""Parquet: read where pyarrow is there, refused with the remedy where it is not."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import research_tables

from prunecast.table import TableError, read

WITHOUT_PYARROW = """
import importlib.abc, sys
class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyarrow", "fastparquet", "torch"):
            raise ImportError(name)
        return None
sys.meta_path.insert(0, Blocker())
from prunecast.table import TableError, read
print(read(sys.argv[2]).digest)
try:
    read(sys.argv[1])
except TableError as problem:
    print(problem)
"""


def frame() -> pd.DataFrame:
    return read(research_tables.path("cifar10-resnet20-24ep")).frame


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    pytest.importorskip("pyarrow")
    path = tmp_path / "runs.parquet"
    frame().to_parquet(path)
    return path


def test_parquet_is_the_same_table(parquet: Path) -> None:
    table = read(parquet)
    pd.testing.assert_frame_equal(table.frame, frame())
    assert table.digest == read(research_tables.path("cifar10-resnet20-24ep")).digest
    assert read(parquet.rename(parquet.with_suffix(".bin"))).digest == table.digest


def test_a_truncated_parquet_file_is_refused(parquet: Path) -> None:
    parquet.write_bytes(parquet.read_bytes()[:-100])
    with pytest.raises(TableError, match="truncated"):
        read(parquet)


def test_a_damaged_parquet_file_is_refused(parquet: Path) -> None:
    parquet.write_bytes(b"PAR1" + b"\xff" * 60 + b"PAR1")
    with pytest.raises(TableError, match="damaged Parquet"):
        read(parquet)


def test_a_bad_row_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "runs.parquet"
    frame().assign(error=[*[0.5] * 282, 7.0]).to_parquet(path)
    with pytest.raises(TableError, match=r"runs\.parquet, row 283: error is 7"):
        read(path)


def test_without_pyarrow_csv_works_and_parquet_names_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"PAR1")
    measured = research_tables.path("cifar10-resnet20-24ep")
    line = [sys.executable, "-c", WITHOUT_PYARROW, path, measured]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    digest, message = done.stdout.splitlines()
    assert digest == read(measured).digest
    assert message.startswith(str(path))
    assert "pip install 'prunecast[parquet]'" in message

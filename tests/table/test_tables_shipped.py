"""The tables that ship with the package."""

from pathlib import Path

import pytest

from prunecast import tables
from prunecast.errors import PrunecastError
from prunecast.table import CONFIGURATION, read


@pytest.mark.parametrize("name", tables.names())
def test_every_shipped_table_reads_and_agrees_with_its_provenance(name: str) -> None:
    table, page = read(name), tables.provenance(name)
    assert table.source == name
    assert len(table) == page["rows"]
    assert len(table.frame.groupby(list(CONFIGURATION))) == page["configurations"]
    assert table.frame["replicate"].nunique() == page["replicates"]
    for column in ("family", "dataset", "method", "recipe"):
        assert str(page[column]).startswith(f"{getattr(table, column)}:")


def test_the_measured_resnet_table() -> None:
    table = read("cifar10-resnet20-24ep")
    assert len(table) == 283
    assert len(table.frame.groupby(list(CONFIGURATION))) == 11
    assert table.chance == 0.9
    assert table.frame.loc[0, "unpruned_error"] == 0.5496
    assert {"weights", "nonzero"} <= set(table.frame.columns)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PrunecastError, match="cifar10-resnet20-24ep"):
        tables.path("mnist")


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cifar10-resnet20-24ep").write_text("density,error\n1,0.5\n")
    assert len(read("cifar10-resnet20-24ep")) == 1

"""The tables that ship with the package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from prunecast import tables
from prunecast.cli import cli
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


def test_a_pair_stands_for_its_preferred_or_fullest_table() -> None:
    assert tables.resolve("cifar10-resnet") == "cifar10-resnet-exact"
    for pair, own in tables.pairs().items():
        pages = [tables.provenance(name) for name in own]
        assert sum("preferred" in page for page in pages) <= 1
        order = [
            ("preferred" in page, tables.informative_rows(name), page["rows"])
            for name, page in zip(own, pages, strict=True)
        ]
        assert order == sorted(order, reverse=True)
        assert tables.resolve(pair) == own[0]
        assert tables.path(pair) == tables.path(own[0])
        assert read(pair).source == own[0]


@pytest.mark.parametrize("name", tables.names())
def test_rows_of_chains_that_left_the_plateau_are_counted(name: str) -> None:
    frame = read(name).frame
    by = [*CONFIGURATION, "replicate"]
    ends = frame.sort_values(["density", "error"]).groupby(by)["error"].agg(["first", "last", "size"])
    assert tables.informative_rows(name) == ends["size"][ends["first"] > 1.1 * ends["last"]].sum()


def test_a_pair_has_a_table_for_each_recipe() -> None:
    assert tables.cifar10_resnet().digest == read("cifar10-resnet").digest
    by_recipe = tables.recipes("cifar10-resnet")
    assert {"sgd-24ep", "cifar10-24ep-bf16"} <= set(by_recipe)
    for recipe, name in by_recipe.items():
        assert tables.cifar10_resnet(recipe=recipe).recipe == recipe
        assert tables.measured("cifar10-resnet", recipe).source == name
    with pytest.raises(
        PrunecastError, match=r"not measured with the recipe 'adam'; its recipes are: .*sgd-24ep"
    ):
        tables.cifar10_resnet(recipe="adam")
    with pytest.raises(PrunecastError, match=r"called 'mnist-mlp'\. The tables are cifar10"):
        tables.measured("mnist-mlp")


def test_every_measured_pair_is_a_function() -> None:
    for pair in tables.pairs():
        assert getattr(tables, pair.replace("-", "_"))().source == tables.resolve(pair)
    with pytest.raises(AttributeError):
        tables.mnist_mlp  # noqa: B018


def test_own_measurements_name_plan_code_device_date_and_seconds() -> None:
    page = tables.provenance("cifar10-resnet")
    assert {"plan", "code", "device", "date", "seconds"} <= set(page)
    frame = read("cifar10-resnet").frame
    assert page["seconds"] == pytest.approx(frame["seconds"].sum(), abs=0.1 + 0.005 * len(frame))
    assert page["chains"] == frame["spec"].nunique()


def test_the_command_lists_them_and_says_where_one_comes_from() -> None:
    listed = CliRunner().invoke(cli, ["tables"]).output
    assert all(name in listed for name in (*tables.names(), *tables.pairs()))
    told = CliRunner().invoke(cli, ["tables", "cifar10-resnet"]).output
    page = tables.provenance("cifar10-resnet")
    assert all(
        f"{key:<15}{str(page[key])[:40]}" in told for key in ("plan", "code", "device", "date", "seconds")
    )
    assert json.loads(CliRunner().invoke(cli, ["tables", "cifar10-resnet", "--json"]).output) == {
        "name": tables.resolve("cifar10-resnet"),
        **page,
    }


def test_tables_are_there_after_a_plain_import_and_say_what_they_are() -> None:
    said = "import prunecast; print(repr(prunecast.tables.cifar10_resnet('sgd-24ep')))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "<Table cifar10-resnet20-24ep: 283 rows of 11 configurations, 1 finding "
        "(cifar_resnet, cifar10, imp, sgd-24ep)>\n"
    )

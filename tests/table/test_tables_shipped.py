"""The tables that ship with the package."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import research_tables
from click.testing import CliRunner

from prunecast import tables
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.table import CONFIGURATION, read, shipped


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
    table = read("cifar10-resnet-24ep")
    assert len(table) == 3705
    assert len(table.frame.groupby(list(CONFIGURATION))) == 130
    assert table.chance == 0.9
    assert table.frame.loc[0, "unpruned_error"] == 0.3115
    assert {"weights", "nonzero"} <= set(table.frame.columns)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PrunecastError, match="cifar10-resnet-24ep"):
        tables.path("mnist")


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cifar10-resnet-24ep").write_text("density,error\n1,0.5\n")
    assert len(read("cifar10-resnet-24ep")) == 1


def moved() -> dict[str, str]:
    """Every table that no longer ships, and the pair to use instead."""
    return {name: pair for pair, own in shipped.MOVED.items() for name in own}


def test_a_table_that_no_longer_ships_names_the_one_to_use_and_its_file() -> None:
    for name, pair in moved().items():
        assert not tables.known(name)
        for ask in (tables.path, tables.provenance, read):
            with pytest.raises(PrunecastError) as caught:
                ask(name)
            assert f"Use {pair}. The old table is benchmarks/tables/{name}.csv" in str(caught.value)
            assert tables.known(pair)
        done = CliRunner().invoke(cli, ["tables", name])
        assert done.exit_code != 0
        assert isinstance(done.exception, PrunecastError)


def test_no_table_is_in_both_places_and_none_has_lost_its_provenance() -> None:
    assert set(research_tables.names()) == set(moved())
    assert not set(research_tables.names()) & set(tables.names())
    for name in research_tables.names():
        table, page = read(research_tables.path(name)), research_tables.provenance(name)
        assert table.source == f"{name}.csv"
        assert len(table) == page["rows"]
        assert len(table.frame.groupby(list(CONFIGURATION))) == page["configurations"]
        assert str(page["recipe"]).startswith(f"{table.recipe}:")


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
    assert {"cifar10-160ep-bf16", "cifar10-24ep-bf16"} <= set(by_recipe)
    for recipe, name in by_recipe.items():
        assert tables.cifar10_resnet(recipe=recipe).recipe == recipe
        assert tables.measured("cifar10-resnet", recipe).source == name
    with pytest.raises(
        PrunecastError, match=r"not measured with the recipe 'adam'; its recipes are: .*cifar10-24ep-bf16"
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
    said = "import prunecast; print(repr(prunecast.tables.cifar10_resnet('cifar10-24ep-bf16')))"
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "<Table cifar10-resnet-24ep: 3,705 rows of 130 configurations, 0 findings "
        "(cifar_resnet, cifar10, imp, cifar10-24ep-bf16)>\n"
    )

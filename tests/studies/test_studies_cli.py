"""`prunecast study`: text against golden files, JSON for programs."""

import json
import re
from pathlib import Path

import pytest
import research_tables
from click.testing import CliRunner
from golden_files import golden
from planted import planted

from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.studies import STUDIES

GOLDEN = Path(__file__).parent / "golden"
MEASURED = str(research_tables.path("cifar10-resnet20-24ep"))


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["study", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("name", STUDIES)
def test_the_text_is_the_golden_one(name: str) -> None:
    text = _run(name, MEASURED)
    assert text == golden(GOLDEN / f"{name}.txt", text)


@pytest.mark.parametrize("name", STUDIES)
def test_the_numbers_are_json(name: str) -> None:
    body = json.loads(_run(name, MEASURED, "--json"))
    assert body["study"] == name
    assert body["table"] == Path(MEASURED).name


@pytest.mark.parametrize("name", STUDIES)
def test_what_short_chains_cannot_show_is_a_dash(name: str, tmp_path: Path) -> None:
    """Chains that hardly left the plateau: no contour, no frontier to speak of, no second replicate."""
    frame = planted(
        configurations=4, depths=(20,), widths=(1 / 16, 1 / 8, 1 / 4, 1 / 2), num_examples=(12_500,)
    )
    frame[frame["level"] < 8].to_csv(tmp_path / "short.csv", index=False)
    output = _run(name, str(tmp_path / "short.csv"))
    assert not re.search(r"\bnan\b|\binf\b", output)


def test_sizes_in_proportion_are_shown_though_they_are_small(tmp_path: Path) -> None:
    """A table without a family and without counts tells shares of its largest network alone."""
    frame = planted(configurations=3, depths=(20,), widths=(1 / 4, 1 / 2, 1), num_examples=(50_000,))
    frame[["density", "error", "width"]].to_csv(tmp_path / "own.csv", index=False)
    _, _, first, *_ = _run("optimality", str(tmp_path / "own.csv")).partition("─\n")[2].split("\n")
    sizes = [float(cell.removesuffix("%")) for cell in first.split()[2:5:2]]
    assert all(0 < size < 100 for size in sizes)


def test_a_law_is_taken_only_where_it_matters() -> None:
    assert json.loads(_run("optimality", MEASURED, "--law", "dip", "--json"))["law"] == "dip"
    with pytest.raises(PrunecastError, match="does not take --law"):
        CliRunner().invoke(cli, ["study", "dips", MEASURED, "--law", "dip"], catch_exceptions=False)

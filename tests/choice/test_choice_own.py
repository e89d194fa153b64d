"""A table of one's own, with widths, densities and errors alone: no output names what it does not have."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from findings_of import findings_of
from own_tables import own_table

from prunecast.choice import choose
from prunecast.choice.findings import CountsUnknown, ParametersUndetermined, SizesProportional
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.laws.findings import WideInterval
from prunecast.table import read
from prunecast.wording import advice


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.csv"
    own_table().to_csv(path, index=False)
    return str(path)


def _run(*arguments: str) -> str:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False).output


def test_sizes_known_in_proportion_are_shares_of_the_largest_network(own: str) -> None:
    text = _run("choose", own, "--target-error", "0.2")
    best = choose(own, target_error=0.2).answer
    assert text.startswith("Train width 1/2, and keep ")
    (row,) = (line for line in text.splitlines() if line.endswith("of the largest measured network unpruned"))
    assert row.split()[:2] == ["Size", f"{100 * best.nonzero_parameters:.2g}%"]
    for word in ("depth", "stored", "non-zero", "examples", "l·w²·d  "):
        assert word not in text
    assert "a column `weights` to get real counts" in text


def test_the_json_keeps_its_fields(own: str) -> None:
    body = json.loads(_run("choose", own, "--target-error", "0.2", "--json"))
    assert body["depth"] == body["num_examples"] == 1
    assert body["stored_parameters"] == body["nonzero_parameters"] == pytest.approx(body["paper_size"])
    assert body["naming"] == {"axes": ["width"], "largest": 1}


def test_counts_in_the_table_are_told(own: str) -> None:
    frame = own_table().assign(weights=lambda rows: 270_000 * rows["width"] ** 2)
    chosen = choose(read(frame), target_error=0.2)
    assert chosen.naming.largest is None
    assert chosen.answer.nonzero_parameters > 1_000


@pytest.mark.parametrize("asked", [["choose", "--frontier"], ["study", "optimality"]])
def test_frontiers_and_studies_say_shares_too(own: str, asked: list[str]) -> None:
    command, option = asked
    text = _run(command, own, option) if option.startswith("-") else _run(command, option, own)
    head, _, rest = text.partition("─\n")
    assert "depth" not in head
    assert "examples" not in head
    assert "%" in rest.splitlines()[0]


def test_a_column_of_ones_is_named_and_an_absent_one_is_not() -> None:
    table = own_table()
    absent, ones = (choose(read(own), target_error=0.2) for own in (table, table.assign(depth=1)))
    assert absent.answer == ones.answer
    assert (absent.naming.axes, ones.naming.axes) == (("width",), ("depth", "width"))
    assert "depth" not in f"{advice(absent)} {absent!r}"
    assert advice(ones).startswith("Train depth 1, width 1/2")
    named = choose(read(table.assign(family="cifar_resnet", dataset="cifar10")), target_error=0.2)
    (why,) = findings_of(named, SizesProportional)
    assert why.reason is CountsUnknown.NO_DEPTHS


def test_a_network_without_sizes_is_the_measured_one() -> None:
    frame = own_table().query("width == 1").drop(columns="width")
    assert advice(choose(read(frame), target_error=0.2)).startswith("Train the measured network, and keep ")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"depth": 2}, "no network of depth 2 was trained, and"),
        ({"num_examples": 500}, "has no column num_examples"),
    ],
)
def test_refusals_name_no_number_of_examples_that_nobody_gave(asked: dict[str, float], said: str) -> None:
    with pytest.raises(PrunecastError, match=said):
        choose(read(own_table()), target_error=0.2, **asked)


def test_an_undetermined_law_answers_with_trained_networks_only() -> None:
    law = fit(read(own_table()))
    assert {"high_error", "p"} <= set(law.undetermined)
    chosen = choose(law, target_error=0.2)
    assert (chosen.verdict.usable, chosen.answer.source) == (False, "measured")
    assert not findings_of(chosen, ParametersUndetermined)
    named = choose(law, density=own_table()["density"].min() / 2)
    assert (named.verdict.usable, named.answer.source) == (False, "law")


def test_open_parameters_make_a_guess_only_where_the_answer_rests_on_them(eq2: Fit) -> None:
    wide = WideInterval(parameter="high_error", symbol="ε↑", lower=0, upper=3)
    law = replace(eq2, findings=(*eq2.findings, wide))
    lowest = min(c.lowest_density for c in law.configurations)
    own, beyond = (choose(law, width=0.5, density=density) for density in (0.5, lowest / 2))
    assert not findings_of(own, ParametersUndetermined)
    assert [one.symbols for one in findings_of(beyond, ParametersUndetermined)] == [("ε↑",)]


def test_a_size_nobody_trained_rests_on_the_exponent_of_width(eq2: Fit) -> None:
    wide = WideInterval(parameter="psi", symbol="ψ", lower=0, upper=3, axis="width")
    law = replace(eq2, findings=(*eq2.findings, wide))
    assert law.undetermined == ("psi",)
    own, between = (choose(law, target_error=0.2, width=width) for width in (0.5, 0.4))
    assert (own.answer.unpruned_source, between.answer.unpruned_source) == ("measured", "predicted")
    assert not findings_of(own, ParametersUndetermined)
    assert [one.parameters for one in findings_of(between, ParametersUndetermined)] == [("psi",)]

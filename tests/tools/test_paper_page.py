"""Pages say what is computed from the shipped tables."""

import re
from importlib import import_module

import click
import page_parts
import pandas as pd
import paper_page
import pytest
import research_tables
from paper_items import Evidence, Verdict, below, holds, two_shapes, within
from planted import planted
from published import claims, compare_curve, compare_with_paper, lowest_errors, published_curve

from prunecast import tables
from prunecast.cli import cli
from prunecast.errors import PrunecastError
from prunecast.laws import Deviation
from prunecast.report.paper_figures import paper_figures
from prunecast.studies import STUDIES, optimality
from prunecast.sweep import shipped_plans
from prunecast.table import read

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["paper_page", "paper_research", "studies_page", "law_page", "intervals_page"]
)
def test_the_page_is_computed(name):
    """Numbers may differ in their last digit between processors."""
    script = import_module(name)
    page = script.PAGE.read_text(encoding="utf-8")
    made = page_parts.renewed(page, script.SCRIPT, script.sections())
    remedy = "tables were added or have grown: make renew, then read what the page says"
    assert NUMBER.sub("#", page) == NUMBER.sub("#", made), remedy
    pairs = zip(NUMBER.findall(page), NUMBER.findall(made), strict=True)
    assert [(old, new) for old, new in pairs if not same(old, new)] == [], remedy


def same(old, new):
    """Equal, or apart by one in the last digit shown."""
    return abs(float(old) - float(new)) < 1.01 * 10.0 ** -len(new.partition(".")[2])


@pytest.fixture(scope="module")
def lines():
    """The rows of the page's table: where, claim, paper, ours, verdict, command."""
    page = paper_page.PAGE.read_text(encoding="utf-8")
    part = page.split("<!-- made by tools/paper_page.py: items -->")[1].split("<!-- end -->")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in part.strip().splitlines()]
    found = rows[2:]
    assert {len(row) for row in found} == {6}
    return found


def test_every_figure_of_the_paper_is_on_the_page(lines):
    lists = [found for place, *_ in lines for found in re.findall(r"Fig\. ([^A-Z]+)", place)]
    named = {int(number) for found in lists for number in re.findall(r"\d+", found)}
    assert named == set(range(1, 20))
    assert {"Table 1", "Eq. 2", "A", "B", "6, H"} <= {place for place, *_ in lines}


def test_the_page_counts_its_verdicts(lines):
    counts = {verdict: sum(line[4] == verdict for line in lines) for verdict in Verdict}
    assert sum(counts.values()) == len(lines) >= 40
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    assert f"Of {len(lines)} items: {listed}." in paper_page.PAGE.read_text(encoding="utf-8")


def test_every_command_of_the_page_exists(lines):
    """Names of commands, options, studies, figures, tables and plans; the commands themselves run elsewhere."""
    known = {*shipped_plans(), *tables.names(), *tables.pairs()}
    for *_, quoted in lines:
        name, *words = quoted.strip("`").split()
        if name == "python":
            assert (paper_page.DOCS.parent / words[0]).exists()
            continue
        command = cli.get_command(click.Context(cli), name)
        options = {option for own in command.params for option in own.opts if isinstance(own, click.Option)}
        assert {word for word in words if word.startswith("--")} <= options
        assert {*words[name == "study" :][:1]} <= known
        if name == "study":
            assert words[0] in STUDIES
        if "--only" in words:
            assert words[words.index("--only") + 1] in paper_figures(read(words[0]))


@pytest.mark.parametrize(
    ("mean", "std", "verdict"),
    [
        (0.019, 0.05, Verdict.CONFIRMED),
        (-0.02, 0.06, Verdict.CONFIRMED),
        (-0.024, 0.05, Verdict.CLOSE),
        (0.0, 0.07, Verdict.CLOSE),
        (0.01, 0.08, Verdict.MISSED),
        (-0.1, 0.01, Verdict.MISSED),
    ],
)
def test_the_worse_of_mean_and_spread_decides(mean, std, verdict):
    assert within(Deviation(mean=mean, std=std, rows=10), 0.02, 0.06) is verdict


def test_a_verdict_on_one_number_or_statement():
    assert [below(value, 40) for value in (26, 45, 60)] == [Verdict.CONFIRMED, Verdict.CLOSE, Verdict.MISSED]
    assert [holds(true) for true in (True, False)] == [Verdict.CONFIRMED, Verdict.MISSED]


def test_two_sharpnesses_fit_a_planted_eq_2_as_well_as_its_noise():
    frame = planted(
        configurations=12, depths=(8, 20), widths=(0.25, 0.5, 1), num_examples=(50_000, 12_500), noise=0.01
    )
    own = Evidence(read(frame, chance=0.9))
    assert two_shapes(own).std == pytest.approx(own.fit.deviation.std, rel=0.3)
    assert two_shapes(own).std < 0.02


def test_noise_alone_misses_the_smallest_network_by_as_much_as_there_is_noise():
    found = {}
    for noise in (0.002, 0.05):
        frame = planted(
            configurations=12,
            replicates=2,
            depths=(14, 20),
            widths=(0.25, 0.5, 1),
            num_examples=(50_000, 12_500),
            noise=noise,
        )
        found[noise] = Evidence(read(frame, chance=0.9)).missed_by_noise
    assert found[0.002][0] < 0.15
    assert found[0.002][1] == 1.0
    assert found[0.05][0] > 0.25


def test_the_paper_states_something_of_every_pair_that_ships_as_a_plan():
    assert set(claims()) == {name for name in shipped_plans() if not name.startswith(("digits", "demo"))}


def test_the_published_curve_is_compared_with_a_table():
    points = compare_curve(read(research_tables.path("cifar10-resnet20-24ep")))
    assert len(points) == len(published_curve()) == 40
    assert [point.level for point in points] == list(range(40))
    assert all(point.density == pytest.approx(0.8**point.level, rel=1e-3) for point in points)
    known = [point for point in points if point.here is not None]
    assert len(known) == 25
    assert (known[0].here, known[0].here_rise) == (pytest.approx(0.152, abs=5e-4), 1.0)
    assert {point.visibility for point in points} == {"visible", "partly hidden", "hidden"}


def test_a_pair_that_the_paper_has_not_is_refused():
    with pytest.raises(PrunecastError, match="the paper has no pair 'mnist-mlp'; it has cifar10-resnet"):
        compare_with_paper(tables.cifar10_resnet(), "mnist-mlp")


def test_a_table_that_follows_the_law_keeps_the_papers_bounds():
    frame = planted(
        configurations=24,
        depths=(8, 14, 20),
        widths=(0.125, 0.25, 0.5, 1),
        num_examples=(50_000, 12_500),
        replicates=2,
    )
    one = compare_with_paper(read(frame, chance=0.9), "cifar10-resnet")
    figures = {figure.name: figure for figure in one.figures}
    assert one.configurations == 24
    assert list(figures) == ["alone", "joint", "whole", "noise", "extrapolation", "smallest", "within"]
    assert figures["noise"].eq2.std == pytest.approx(0.034, rel=0.1)
    assert figures["extrapolation"].remark == ""
    for name in ("alone", "joint", "extrapolation"):
        own, paper = figures[name].eq2, figures[name].paper
        assert abs(own.mean) < paper.mean
        assert own.std < paper.std


def test_networks_too_large_for_their_data_are_left_out_beside_all():
    frame = planted(configurations=4, depths=(8,), widths=(0.25, 0.5, 1, 2), num_examples=(50_000,))
    frame.loc[frame["width"] == 2, "error"] *= 1 + 4 * (frame["density"] > 0.5)
    figures = {
        figure.name: figure
        for figure in compare_with_paper(read(frame, chance=0.9), "cifar10-resnet").figures
    }
    assert figures["selected"].remark.endswith(f" of {len(frame)} training runs")
    assert figures["selected"].paper == figures["joint"].paper
    assert figures["selected"].eq2.std < figures["joint"].eq2.std


def test_one_chain_has_fewer_figures():
    chain = read(research_tables.path("cifar10-resnet20-24ep-fleet")).select(width=0.25, num_examples=3125)
    names = [figure.name for figure in compare_with_paper(chain, "svhn-vgg").figures]
    assert names == ["alone", "joint", "noise"]


def test_the_lowest_error_is_that_of_the_means():
    frame = pd.DataFrame(
        {
            "depth": 8,
            "width": [1, 1, 1, 1, 1, 1, 2],
            "num_examples": 100,
            "replicate": [0, 0, 0, 1, 1, 1, 0],
            "level": [0, 1, 2, 0, 1, 2, 0],
            "density": [1, 0.8, 0.64, 1, 0.8, 0.64, 1],
            "error": [0.5, 0.2, 0.35, 0.4, 0.6, 0.35, 0.3],
        }
    )
    (one,) = lowest_errors(read(frame, chance=0.9))
    assert (one.width, one.level, one.levels) == (1, 2, 2)
    assert (one.unpruned, one.lowest) == (pytest.approx(0.45), pytest.approx(0.35))


def test_curves_that_never_rise_leave_nothing_to_compare():
    long = planted(configurations=4, depths=(8,), widths=(0.25, 0.5, 1, 2), num_examples=(12_500,))
    short = planted(configurations=4, depths=(8,), widths=(0.25, 0.5, 1, 2), num_examples=(50_000,))
    table = read(pd.concat([long, short[short["level"] == 0]]), chance=0.9)
    with pytest.raises(PrunecastError, match="no curve with 50000 examples crosses an error"):
        optimality(table, num_examples=50_000)
    figures = {figure.name: figure for figure in compare_with_paper(table, "cifar10-resnet").figures}
    assert figures["smallest"].remark.startswith("12,500 examples, ")

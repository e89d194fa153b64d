"""Every figure of the paper is drawn from a table: its panels, its series, and numbers equal to the studies'."""

import re

import numpy as np
import pytest
from figure_words import unreadable
from PIL import Image
from planted import planted
from report_tables import TABLES

from prunecast import fit, studies
from prunecast.errors import PrunecastError
from prunecast.laws import Deviation, fit_each
from prunecast.report import draw_paper_figures
from prunecast.report.paper_figures import FIGURES, PAIR_FIGURE, PAIRS, composed, paper_figures
from prunecast.report.paper_source import Paper
from prunecast.table import read
from prunecast.wording import numbers

PANELS = {
    "figure-1": 3,
    "figure-2": 3,
    "figure-3": 3,
    "figure-4": 3,
    "figure-5": 2,
    "figure-6": 2,
    "figure-7": 1,
    "figure-8": 2,
    "figure-9": 3,
    "figure-11": 6,
    "figure-18": 2,
    "figure-19": 2,
}
WIDTHS = (0.125, 0.25, 0.5, 1.0)


@pytest.fixture(scope="module")
def table():
    """All of the paper's axes, its split and two replicates."""
    frame = planted(
        configurations=24,
        replicates=2,
        depths=(8, 14, 20),
        widths=WIDTHS,
        num_examples=(50_000, 12_500),
        noise=0.02,
    )
    return read(frame.assign(family="cifar_resnet", dataset="cifar10"))


@pytest.fixture(scope="module")
def paper(table):
    return Paper(table=table, fit=fit(table, law="eq2"))


@pytest.fixture(scope="module")
def drawn(paper):
    """Each figure of the planted table once, composed when first asked for."""
    made = {}

    def spec(name):
        if name not in made:
            made[name], left_out = composed({**FIGURES, "pair": PAIR_FIGURE}[name], paper)
            assert left_out == {}
        return made[name]

    return spec


def texts(panel):
    """The words written into a panel."""
    return [layer["mark"]["text"] for layer in panel["layer"] if layer["mark"]["type"] == "text"]


def marks(panel, kind):
    """The data of every layer of one kind of mark."""
    return [layer["data"]["values"] for layer in panel["layer"] if layer["mark"]["type"] == kind]


def deviation(text):
    """μ and σ, as a panel shows them."""
    found = re.search(r"μ = ([+−][\d.]+)%, σ = ([\d.]+)%", text)
    return float(found[1].replace("−", "-")) / 100, float(found[2]) / 100


def shown(panel):
    return next(deviation(text) for text in texts(panel) if "μ = " in text)


def close(own: Deviation):
    return pytest.approx((own.mean, own.std), abs=6e-4)


@pytest.mark.parametrize("name", PANELS)
def test_every_figure_has_its_panels(drawn, name):
    assert len(drawn(name)["concat"]) == PANELS[name]
    assert set(PANELS) == set(FIGURES)


@pytest.mark.parametrize("name", PANELS)
def test_the_words_of_a_figure_can_be_read(drawn, name):
    assert unreadable(drawn(name)) == []


def test_figure_1_shows_all_widths_one_curve_and_its_parameters(drawn, paper):
    widths, regions, roles = drawn("figure-1")["concat"]
    assert {row["hue"] for row in marks(widths, "line")[0]} == {numbers.size(width) for width in WIDTHS}
    (measured,) = marks(regions, "point")
    sketch, smooth = marks(regions, "line")
    assert len(measured) == len(paper.table.select(width=1, depth=20, num_examples=50_000)) / 2
    assert len(sketch) == 4
    assert sketch[0]["error"] == sketch[1]["error"] == pytest.approx(0.85, rel=0.1)
    assert sketch[2]["error"] == sketch[3]["error"] == pytest.approx(paper.example.unpruned_error, rel=1e-3)
    slope = np.log(sketch[1]["error"] / sketch[2]["error"]) / np.log(sketch[2]["x"] / sketch[1]["x"])
    assert slope == pytest.approx(0.55, rel=0.15)
    assert all(row["error"] < 0.95 for row in smooth)
    assert {"ε↑", "slope −γ", "p", "ε_np"} < set(texts(roles))


def test_figure_1_borrows_the_plateau_that_a_short_curve_never_reaches(table):
    frame = table.frame[(table.frame["error"] < 0.3) | (table.frame["width"] < 1)]
    short = read(frame.assign(family="cifar_resnet", dataset="cifar10"))
    paper = Paper(table=short, fit=fit(short, law="eq2"))
    assert paper.example_law == "Eq. 2"
    assert paper.example.parameters["high_error"] == paper.fit.high_error
    inside = (paper.rows.width == 1) & (paper.rows.depth == 20) & (paper.rows.num_examples == 50_000)
    own = paper.rows[inside]
    assert paper.example.predict(own.density) == pytest.approx(own.estimate, rel=1e-6)


def test_figure_2_shows_eq_1_of_each_configuration_alone(drawn, table):
    singles = [one.deviation for one in fit_each(table)]
    rows, means, stds = (
        np.array([getattr(one, name) for one in singles]) for name in ("rows", "mean", "std")
    )
    mean = (rows * means).sum() / rows.sum()
    std = np.sqrt((rows * (means**2 + stds**2)).sum() / rows.sum() - mean**2)
    curves, same, every = drawn("figure-2")["concat"]
    assert shown(every) == pytest.approx((mean, std), abs=6e-4)
    assert len(marks(every, "point")[0]) == rows.sum()
    assert len(marks(same, "point")[0]) == len(marks(curves, "line")[0]) < rows.sum()


def test_figure_3_shows_contours_with_the_slopes_of_the_invariant(drawn, paper):
    depth, width, product = drawn("figure-3")["concat"]
    for panel, axis, name in ((depth, "depth", "phi"), (width, "width", "psi")):
        exponent = paper.part(axis).fit.parameters[name]
        ends = marks(panel, "line")[-1]
        slope = np.log(ends[1]["density"] / ends[0]["density"]) / np.log(ends[1]["size"] / ends[0]["size"])
        assert slope == pytest.approx(-exponent, rel=1e-3)
        assert any(f"slope −{numbers.number(exponent)}" in text for text in texts(panel))
    (points,) = marks(product, "point")
    for hue in {row["hue"] for row in points}:
        own = [row["size"] * row["density"] for row in points if row["hue"] == hue]
        assert max(own) / min(own) < 2.2  # the invariant: the product is one number at one error


def test_figure_4_annotates_each_partial_fit(drawn, paper):
    for panel, axis in zip(drawn("figure-4")["concat"], ("width", "depth", "num_examples"), strict=True):
        own = paper.part(axis).fit
        words = texts(panel)
        assert f"ε↑ = {numbers.number(own.parameters['high_error'])}" in words
        assert f"γ = {numbers.number(own.parameters['gamma'])}" in words
        p = next(float(text[5:]) for text in words if text.startswith("p′ = "))
        assert p == pytest.approx(paper.fit.parameters["p"], rel=0.35)  # of one table, in one unit


def test_figures_5_and_12_to_17_show_the_joint_fit_and_the_replicates(drawn, paper, table):
    joint, replicates = drawn("figure-5")["concat"]
    assert shown(joint) == close(paper.fit.deviation)
    noise = studies.noise(table).overall
    assert f"σ = {numbers.percent(noise.replicates)} of {noise.groups} networks" in texts(replicates)[0]
    (spans,) = marks(replicates, "rule")
    assert len(spans) == noise.groups
    assert all(row["low"] <= row["mean"] <= row["high"] for row in spans)
    curves, *same = drawn("pair")["concat"]
    assert [texts(one) for one in same] == [texts(joint), texts(replicates)]
    assert shown(curves) == close(paper.part("width").fit.deviation)


def test_figure_6_shows_mean_and_spread_of_both_numbers(drawn, table):
    found = studies.sensitivity(table)
    for panel, samples in zip(
        drawn("figure-6")["concat"], (found.random_points, found.random_configurations), strict=True
    ):
        (data,) = marks(panel, "line")
        assert {row["hue"] for row in data} == {"μ", "σ"}
        sigma = {row["count"]: row["value"] for row in data if row["hue"] == "σ"}
        assert sigma == pytest.approx({one.count: 100 * one.mean_sigma for one in samples}, rel=1e-3)
        assert len(marks(panel, "area")[0]) == 2 * len(samples)


def test_figures_7_and_19_compare_forms_and_show_unpruned_networks(drawn, table):
    (panel,) = drawn("figure-7")["concat"]
    (lines,) = marks(panel, "line")
    assert {row["hue"] for row in lines} == {"Eq. 2", "Rosenfeld 2020"}
    assert len(lines) == 2 * len(marks(panel, "point")[0])
    ours, theirs = (float(found) for found in re.findall(r"([\d.]+)%", texts(panel)[0]))
    assert ours < theirs
    same, unpruned = drawn("figure-19")["concat"]
    assert texts(same) == texts(panel)
    assert len(marks(unpruned, "point")[0]) == len(WIDTHS) * 2


def test_figure_8_shows_both_frontiers(drawn, paper):
    part = paper.part("width")
    found = studies.optimality(part.table, fitted=part.fit).frontier
    for panel, name in zip(
        drawn("figure-8")["concat"], ("predicted_nonzero", "measured_nonzero"), strict=True
    ):
        _, frontier = marks(panel, "line")
        assert [row["x"] for row in frontier] == pytest.approx([getattr(o, name) for o in found], rel=1e-3)
        assert len(marks(panel, "point")) == 2
        best, large = (own[0]["x"] for own in marks(panel, "point"))
        assert best < large


@pytest.mark.parametrize("name", ["figure-9", "figure-11"])
def test_figures_9_and_11_vary_one_axis_at_a_time(drawn, paper, name):
    order = {"figure-9": ("width", "depth", "num_examples"), "figure-11": ("width", "num_examples", "depth")}[
        name
    ]
    for panel, axis in zip(drawn(name)["concat"], order, strict=False):
        part = paper.part(axis)
        assert {row["hue"] for row in marks(panel, "line")[0]} == set(part.hue.names)
        assert len(marks(panel, "line")[0]) == len(part.rows)
        if name == "figure-11":
            assert shown(panel) == close(part.fit.deviation)


def test_figure_18_shows_the_papers_split(drawn, table):
    step = next(
        own
        for own in studies.extrapolation(table).steps
        if (own.along, own.law) == (studies.PAPER_SPLIT, "eq2")
    )
    for panel in drawn("figure-18")["concat"]:
        assert shown(panel) == close(step.predicted)
        (points,) = marks(panel, "point")
        counts = {hue: sum(row["hue"] == hue for row in points) for hue in ("fitted", "extrapolated")}
        assert counts == {"fitted": step.fitted.rows, "extrapolated": step.predicted.rows}


def test_a_panel_that_the_table_cannot_fill_is_left_out_with_a_sentence(tmp_path):
    only = ("figure-4", "figure-5", "figure-8", "figure-9", "figure-18")
    made = {one.name: one for one in draw_paper_figures(TABLES["measured"](), tmp_path, only=only)}
    assert list(made) == list(only)
    assert made["figure-4"].left_out == (
        "by depth: cifar10-resnet20-24ep.csv: no two networks differ in depth alone, with the same width and training "
        "examples",
        "by training examples: cifar10-resnet20-24ep.csv: no two networks differ in training examples alone, with the "
        "same width and depth",
    )
    assert "no network was trained twice" in made["figure-5"].left_out[0]
    assert made["figure-18"].paths == ()
    assert "depths 14 and 20 with widths 1/8 and 1/4" in made["figure-18"].missing
    for one in made.values():
        assert bool(one.paths) != bool(one.missing)
        if one.paths:
            assert [path.suffix for path in one.paths] == [".pdf", ".png", ".svg"]
            with Image.open(one.paths[1]) as image:
                assert image.height > 400


def test_one_curve_alone_has_its_own_panels(tmp_path):
    made = {one.name: one for one in draw_paper_figures(TABLES["one"](), tmp_path)}
    assert {name for name, one in made.items() if one.paths} == {
        "figure-1",
        "figure-2",
        "figure-5",
        "figures-12-17",
    }
    assert len(made["figures-12-17"].left_out) == 1


@pytest.mark.parametrize(("pair", "name"), PAIRS.items())
def test_a_pair_has_its_own_number(pair, name):
    frame = TABLES["one"]().frame.assign(family=pair[0], dataset=pair[1])
    found = paper_figures(read(frame, chance=0.9))
    assert found[name] is PAIR_FIGURE
    assert "figures-12-17" not in found


def test_imagenet_has_figure_10():
    frame = TABLES["one"]().frame.assign(family="imagenet_resnet", dataset="imagenet")
    found = paper_figures(read(frame))
    assert "figure-10" in found
    assert "figure-9" not in found


def test_an_unknown_figure_is_a_sentence(tmp_path):
    with pytest.raises(
        PrunecastError, match="the paper has no figure 'figure-20' of this table; there are figure-1"
    ):
        draw_paper_figures(TABLES["one"](), tmp_path, only=("figure-20",))

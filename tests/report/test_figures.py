"""Every figure a table allows is drawn; those it does not allow say why."""

import re
from itertools import combinations, pairwise

import pytest
import vl_convert
from figure_words import unreadable, words_in
from PIL import Image
from report_tables import TABLES, loss_table

from prunecast import fit
from prunecast.errors import PrunecastError
from prunecast.laws import FormulaLaw, Parameter
from prunecast.laws import law as laws
from prunecast.metric import Metric
from prunecast.report import FIGURES, draw_figures
from prunecast.report.charts import FittedTable
from prunecast.report.vega import rendered

KINDS = ("pdf", "png", "svg")
NOT_ALLOWED = {
    "measured": {"replicates-spread"},
    "planted": set(),
    "one": {
        "contours",
        "error-against-invariant",
        "replicates-spread",
        "sensitivity",
        "extrapolation",
        "forms",
    },
}
NAMING = (
    "error-against-density",
    "estimated-against-actual",
    "contours",
    "error-against-invariant",
    "sensitivity",
    "frontier",
)


def drawn(name: str, table: str, law: str = "eq2"):
    data = TABLES[table]()
    return FIGURES[name](FittedTable(table=data, fit=fit(data, law=law)))


def said(spec) -> str:
    return " ".join(re.findall(r">([^<]+)</text>", vl_convert.vegalite_to_svg(spec)))


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_figures_are_drawn_or_say_why_not(tmp_path, name):
    made = {one.name: one for one in draw_figures(TABLES[name](), tmp_path)}
    assert list(made) == list(FIGURES)
    assert {one.name for one in made.values() if one.missing} == NOT_ALLOWED[name]
    for one in made.values():
        assert bool(one.paths) != bool(one.missing)
        if one.paths:
            pdf, png, svg = one.paths
            assert [path.suffix[1:] for path in one.paths] == list(KINDS)
            assert pdf.read_bytes().startswith(b"%PDF")
            assert svg.read_text(encoding="utf-8").startswith("<svg")
            with Image.open(png) as image:
                assert max(image.size) > 700
                assert min(image.size) > 250
                assert len(set(image.convert("L").resize((60, 60)).get_flattened_data())) > 10


def test_a_table_of_losses_is_labelled_so():
    table = loss_table()
    source = FittedTable(table=table, fit=fit(table, law="eq2"))
    found = {name: said(FIGURES[name](source)) for name in FIGURES if name != "replicates-spread"}
    assert [name for name, text in found.items() if "error" in text] == []
    assert {"test loss" in found[name] for name in ("frontier", "error-against-density")} == {True}
    assert "unpruned loss" in found["dips"]


def test_a_metric_names_itself():
    assert [metric.measured for metric in (Metric.ERROR, Metric.VALIDATION_ERROR, Metric.LOSS)] == [
        "test error",
        "validation error",
        "test loss",
    ]


def test_the_same_table_gives_the_same_bytes(tmp_path):
    only = ("error-against-density", "frontier")
    for folder in ("a", "b"):
        draw_figures(TABLES["measured"](), tmp_path / folder, only=only)
    for name in (f"{one}.{kind}" for one in only for kind in KINDS):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_pdf_points_at_its_objects():
    pdf = rendered(drawn("frontier", "measured"))["pdf"]
    start = int(re.findall(rb"startxref\s+(\d+)", pdf)[-1])
    head, count, *entries = pdf[start:].split(b"\n")
    assert head == b"xref"
    for number, entry in enumerate(entries[: int(count.split()[1])]):
        offset, _, kind = entry.split()
        assert kind == b"f" or pdf[int(offset) :].startswith(b"%d 0 obj" % number)


@pytest.mark.parametrize("name", ["error-against-invariant", "frontier"])
def test_shapes_tell_the_next_axis_apart(name):
    titles = {one.text for one in words_in(drawn(name, "planted")) if one.role == "legend-title"}
    assert titles == {"width", "depth"}


@pytest.mark.parametrize(("law", "words"), [("auto", "the dip law"), ("eq2", "Eq. 2")])
def test_figures_name_the_law_that_they_draw(law, words):
    table = TABLES["measured"]()
    source = FittedTable(table=table, fit=fit(table, law=law))
    assert [name for name in NAMING if words not in said(FIGURES[name](source))] == []
    assert "The three regions of Eq. 2" in said(FIGURES["regions-and-roles"](source))


def test_figures_are_drawn_by_the_law_that_answers(tmp_path):
    usual, auto, paper = (
        draw_figures(TABLES["measured"](), tmp_path / name, only=("frontier",), **asked)[0]
        .paths[1]
        .read_bytes()
        for name, asked in (("usual", {}), ("auto", {"law": "auto"}), ("eq2", {"law": "eq2"}))
    )
    assert usual == auto != paper


def test_panels_name_the_sizes_that_they_hold():
    words = [one.text for one in words_in(drawn("error-against-density", "planted")) if one.role == "mark"]
    assert words == [
        "depth 20, training examples 50,000",
        "By width",
        "width 1, training examples 50,000",
        "By depth",
        "width 1, depth 20",
        "By training examples",
    ]


@pytest.mark.parametrize("table", ["planted", "all sizes"])
@pytest.mark.parametrize(
    "name", ["dense-error", "frontier", "contours", "error-against-density", "sensitivity"]
)
def test_words_do_not_run_into_each_other_and_are_not_cut_off(name, table):
    spec = drawn(name, table)
    assert len(words_in(spec)) > 8
    assert unreadable(spec) == []


@pytest.mark.parametrize("table", ["measured", "planted", "one"])
def test_the_words_of_the_regions_stand_apart(table):
    found = [
        one for one in words_in(drawn("regions-and-roles", table)) if one.role == "mark" and one.panel == 0
    ]
    assert len(found) > 4
    assert [(one.text, two.text) for one, two in combinations(found, 2) if one.overlaps(two)] == []


def test_titles_of_panels_are_at_one_height():
    for name in ("error-against-density", "replicates-spread", "estimated-against-actual"):
        found = [one for one in words_in(drawn(name, "planted")) if one.role == "mark"]
        heights = {one.panel: min(own.top for own in found if own.panel == one.panel) for one in found}
        assert len(heights) > 1
        assert all(a == pytest.approx(b, abs=0.5) for a, b in pairwise(heights.values()))


def test_a_law_without_the_usual_parameters_is_drawn_too(tmp_path, monkeypatch):
    own = FormulaLaw(
        name="rising",
        title="the rising law",
        equation="error = unpruned (1 + a (1/density - 1))^b",
        parameters=(
            Parameter(name="a", symbol="a", lower=1e-6, upper=10.0, start=0.1),
            Parameter(name="b", symbol="b", lower=0.01, upper=3.0, start=0.5),
        ),
        formula=lambda rows, a, b: rows.unpruned * (1 + a * (1 / rows.density - 1)) ** b,
    )
    monkeypatch.setitem(laws._LAWS, own.name, own)
    made = draw_figures(TABLES["planted"](), tmp_path, law="rising")
    assert {one.name for one in made if one.missing} == {"error-against-invariant"}
    assert "the rising law" in (tmp_path / "regions-and-roles.svg").read_text(encoding="utf-8")


def test_an_unknown_figure_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="no figure is called 'pie'"):
        draw_figures(TABLES["measured"](), tmp_path, only=("pie",))


def test_a_table_too_small_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="cannot determine"):
        draw_figures(TABLES["tiny"](), tmp_path)


def test_the_frontier_names_the_size_that_it_draws(tmp_path):
    """A table without counts has sizes in proportion alone, which are no stored parameters."""
    from planted import planted

    from prunecast import fit, read
    from prunecast.report.charts import FittedTable
    from prunecast.report.figures import frontier

    frame = planted(configurations=6, num_examples=(50_000,), seed=3)
    for counted, title in ((True, "stored parameters"), (False, "depth · width² · density")):
        own = frame if counted else frame.drop(columns=["weights", "nonzero"])
        table = read(own)
        text = str(frontier(FittedTable(table=table, fit=fit(table, law="eq2"))))
        assert title in text
        assert ("stored parameters" in text) == counted
        assert "fewest parameters" not in text


@pytest.mark.parametrize(("table", "depths"), [("planted", True), ("measured", False)])
def test_the_dense_law_is_drawn_at_a_depth_only_where_depths_vary(table, depths):
    assert ("the dense law at depth" in said(drawn("dense-error", table))) == depths
    assert "the dense law" in said(drawn("dense-error", table))

"""Every figure a table allows is drawn; those it does not allow say why."""

from itertools import combinations, pairwise

import pytest
from matplotlib.legend import Legend
from matplotlib.text import Text
from PIL import Image
from report_tables import TABLES, loss_table

from prunecast.errors import PrunecastError
from prunecast.report.figures import FIGURES, figures
from prunecast.report.figures.curves import error_against_density
from prunecast.report.figures.sources import Source
from prunecast.report.figures.style import spoken
from prunecast.report.spoken import speaker

NOT_ALLOWED = {
    "measured": {"replicates-spread"},
    "planted": set(),
    "one": {"contours", "error-against-invariant", "replicates-spread", "extrapolation"},
}


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_figures_are_drawn_or_say_why_not(tmp_path, name):
    drawn = {one.name: one for one in figures(TABLES[name](), tmp_path)}
    assert list(drawn) == list(FIGURES)
    missing = {one.name for one in drawn.values() if one.missing}
    assert missing >= NOT_ALLOWED[name]
    if name != "one":
        assert missing == NOT_ALLOWED[name]
    for one in drawn.values():
        assert bool(one.paths) != bool(one.missing)
        if one.paths:
            pdf, png = one.paths
            assert pdf.read_bytes().startswith(b"%PDF")
            with Image.open(png) as image:
                assert min(image.size) > 500
                assert len(set(image.convert("L").resize((60, 60)).get_flattened_data())) > 10


def test_a_table_of_losses_is_labelled_so():
    figure = FIGURES["frontier"](Source(table=loss_table(), law="eq2"))
    spoken(figure, speaker("loss"))
    said = " ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))
    assert "test loss" in said
    assert "error" not in said


def test_the_same_table_gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        figures(TABLES["measured"](), tmp_path / folder, only=("error-against-density",))
    for kind in ("pdf", "png"):
        one, two = (tmp_path / folder / f"error-against-density.{kind}" for folder in ("a", "b"))
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("name", ["error-against-invariant", "frontier"])
def test_shapes_tell_the_next_axis_apart_and_legends_are_not_cut_off(name):
    figure = FIGURES[name](Source(table=TABLES["planted"](), law="eq2"))
    figure.draw_without_rendering()
    legends = [one for one in figure.findobj(Legend) if isinstance(one, Legend)]
    assert {one.get_title().get_text() for one in legends} == {"width", "depth"}
    for one in legends:
        assert one.get_window_extent().x1 <= figure.bbox.x1


NAMING = (
    "error-against-density",
    "estimated-against-actual",
    "contours",
    "error-against-invariant",
    "sensitivity",
    "frontier",
)


def words_of(figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(Text) if isinstance(text, Text))


@pytest.mark.parametrize(("law", "words"), [("auto", "the dip law"), ("eq2", "Eq. 2")])
def test_figures_name_the_law_that_they_draw(law, words):
    source = Source(table=TABLES["measured"](), law=law)
    assert [name for name in NAMING if words not in words_of(FIGURES[name](source))] == []
    assert "the three regions of Eq. 2" in words_of(FIGURES["regions-and-roles"](source))


def test_figures_are_drawn_by_the_law_that_answers(tmp_path):
    one, other = (
        figures(TABLES["measured"](), tmp_path / name, only=("frontier",), **asked)[0].paths[1].read_bytes()
        for name, asked in (("auto", {}), ("dip", {"law": "dip"}))
    )
    assert one == other


def test_panels_name_the_sizes_that_they_hold():
    titles = [
        panel.get_title()
        for panel in error_against_density(Source(table=TABLES["planted"](), law="eq2")).axes
    ]
    assert titles == [
        "by width (depth 20, training examples 50,000)",
        "by depth (width 1, training examples 50,000)",
        "by training examples (width 1, depth 20)",
    ]


@pytest.mark.parametrize("name", ["dense-error", "frontier", "contours", "error-against-density"])
@pytest.mark.parametrize("table", ["planted", "all sizes"])
def test_labels_do_not_run_into_each_other(name, table):
    figure = FIGURES[name](Source(table=TABLES[table](), law="eq2"))
    figure.draw_without_rendering()
    for panel in figure.axes:
        boxes = [label.get_window_extent() for label in panel.get_xticklabels()]
        assert len(boxes) > 1
        assert all(one.x1 + 4 < two.x0 for one, two in pairwise(boxes))


def test_the_words_of_the_regions_stand_apart():
    figure = FIGURES["regions-and-roles"](Source(table=TABLES["measured"](), law="eq2"))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) > 4
    assert not any(one.overlaps(two) for one, two in combinations(boxes, 2))


def test_an_unknown_figure_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="no figure is called 'pie'"):
        figures(TABLES["measured"](), tmp_path, only=("pie",))


def test_a_table_too_small_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="cannot determine"):
        figures(TABLES["tiny"](), tmp_path)

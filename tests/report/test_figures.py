"""Every figure a table allows is drawn; those it does not allow say why."""

import pytest
from matplotlib.legend import Legend
from matplotlib.text import Text
from PIL import Image
from report_tables import TABLES, loss_table

from prunecast.errors import PrunecastError
from prunecast.report.figures import FIGURES, figures
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


def test_an_unknown_figure_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="no figure is called 'pie'"):
        figures(TABLES["measured"](), tmp_path, only=("pie",))


def test_a_table_too_small_is_a_sentence(tmp_path):
    with pytest.raises(PrunecastError, match="cannot determine"):
        figures(TABLES["tiny"](), tmp_path)

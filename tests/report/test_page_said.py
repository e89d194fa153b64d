"""What the page says where the data say little, and by which law."""

import re
from dataclasses import replace

import pytest
from own_tables import own_table
from planted import planted
from report_tables import TABLES

from prunecast import fit, studies
from prunecast.choice import question_for
from prunecast.laws import verdict
from prunecast.report import page, terminal
from prunecast.report.answers import answers, too_high
from prunecast.report.charts import FittedTable, view
from prunecast.report.choices import facts
from prunecast.report.fits import parameters_section
from prunecast.report.studies import study_sections
from prunecast.report.vega import ticks
from prunecast.table import Table, read
from prunecast.wording.report import any_network_suffices, headline


def uneven(lowest: float) -> Table:
    """Two widths, the wider one measured down to a density at which its error has not yet risen."""
    frame = planted(configurations=2, depths=(20,), widths=(0.25, 1.0), num_examples=(50_000,), noise=0.01)
    few = frame[(frame["width"] == 0.25) | (frame["density"] > lowest)]
    return read(few[["width", "density", "error"]])


def shallow() -> Table:
    """Two widths that were hardly pruned, so that no error at which they end was seen."""
    frame = planted(configurations=2, depths=(20,), widths=(0.5, 1.0), num_examples=(50_000,), noise=0.01)
    return read(frame[frame["density"] > 0.1][["width", "density", "error"]])


def invariance_section(table: Table):
    sections = study_sections(table, fit(table, law="auto"), lambda step: None)
    return next(one for one in sections if one.name == "invariance")


def test_one_curve_has_no_spread_and_no_contours():
    found = studies.invariance(uneven(0.2))
    assert (found.configurations, found.contours[0].count) == (1, 0)
    contours, alone = invariance_section(uneven(0.2)).grids
    assert contours.rows[0][:3] == ["width", "0", "too few"]
    assert [row[-1] for row in alone.rows] == ["–"] * 3
    assert alone.caption == "Eq. 1 fitted to single curves: 1 configuration determines it"
    text = terminal.text(invariance_section(uneven(0.2)))
    assert "too few" in text
    assert "0.0%" not in text


def test_a_table_without_a_curve_that_determines_the_law_shows_no_empty_table():
    assert studies.invariance(shallow()).configurations == 0
    assert len(invariance_section(shallow()).grids) == 1


def test_no_page_says_nan():
    html = page(uneven(0.2)).html
    text = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"\bnan\b", text, re.IGNORECASE)


def test_a_study_by_another_law_than_the_page_names_it(written):
    html = written("all sizes").read_text(encoding="utf-8")
    assert fit(TABLES["all sizes"](), law="auto").law == "dip"
    assert "Unless a study names another law, it uses the dip law." in html
    headers = [name for one in invariance_section(TABLES["all sizes"]()).grids for name in one.header]
    assert {"By Eq. 2", "Joint fit of Eq. 2"} <= set(headers)


def meaning(table, law):
    return parameters_section(FittedTable(table=table, fit=law)).notes


def test_what_is_not_determined_is_no_fact():
    law = fit(shallow(), law="eq2")
    assert {"high_error", "psi"} <= set(law.undetermined)
    notes = meaning(shallow(), law)
    assert notes[0].endswith("is a guess.")
    assert not any("However far" in one or "at equal error" in one for one in notes)
    assert all(
        one.startswith("The data do not show how")
        for one in notes[1:]
        if "which the data do not determine" in one
    )
    assert sum("which the data do not determine" in one for one in notes) == len(notes) - 1
    assert any_network_suffices("{}", law).startswith("The data do not show how far")
    assert not verdict(law).usable
    assert too_high(law) == []
    table = TABLES["planted"]()
    known = meaning(table, fit(table, law="eq2"))
    assert known[0].startswith("However far a network is pruned, its error stops rising at ε↑ = ")


@pytest.mark.parametrize(
    ("gamma", "said"),
    [
        (0.5, "halving the density raises the error by 41%"),
        (2.0, "halving the density makes the error 4 times as large"),
        (20.0, "do not show how fast the error rises between the plateaus"),
    ],
)
def test_no_slope_gives_an_absurd_number(gamma, said):
    """A slope at its search limit of 20 used to raise the error by 104857500%."""
    table = TABLES["planted"]()
    law = fit(table, law="eq2")
    steep = replace(law, parameters={**law.parameters, "gamma": gamma})
    notes = meaning(table, steep)
    assert sum(said in note for note in notes) == 1
    assert not any("00%" in note for note in notes)


@pytest.mark.parametrize(
    ("phi", "said"),
    [
        (1.0, "has the same error at 50% of the density"),
        (0.0, "networks with twice the depth have the same error"),
        (-2.0, "has the same error at 4 times the density"),
    ],
)
def test_exponents_of_any_sign_read_well(phi, said):
    """A negative exponent asks for more density, which is no part of it."""
    table = TABLES["planted"]()
    law = fit(table, law="eq2")
    notes = meaning(table, replace(law, parameters={**law.parameters, "phi": phi}))
    assert sum(said in note for note in notes) == 1


@pytest.mark.parametrize(("law", "dips"), [("eq2", False), ("dip", True)])
def test_only_a_law_that_dips_says_that_light_pruning_helps(law, dips):
    table = TABLES["all sizes"]()
    notes = meaning(table, fit(table, law=law))
    assert any(one.startswith("Light pruning lowers the error by up to ") for one in notes) == dips


def test_a_table_without_depths_and_counts_gets_neither():
    law = fit(read(own_table()), law="eq2")
    answer = answers(law, question_for(law))[20]
    assert headline(answer).startswith("Train width ")
    found = {fact.name: fact for fact in facts(answer, law.kept_per_level)}
    assert "depth" not in found["Network"].value
    assert found["Size"].value.endswith("%")
    assert found["Size"].remark == "of the largest measured network unpruned"
    html = page(read(own_table()), studies=False).html
    assert '"title":"depth · width² · density, proportional to the weights kept"' in html
    assert "Stored parameters</th>" not in html


@pytest.mark.parametrize(
    ("ends", "first"),
    [((0.109, 0.96), 0.12), ((0.15, 0.9), 0.15), ((0.0011, 1.07), 0.0012), ((93, 3e5), 100)],
)
def test_the_lower_end_of_an_axis_has_a_label(ends, first):
    found = ticks(ends)
    assert found[0] == first
    assert found == sorted(set(found))


def test_the_error_axis_holds_what_is_drawn_and_little_else():
    points = [{"error": 0.5, "size": 100.0}, {"error": 0.8, "size": 2000.0}]
    data = {"members": [], "points": points, "frontier": [{"error": 0.52, "size": 300.0}]}
    shown = view(data, [data], "Stored parameters")
    assert shown["low"] == pytest.approx(0.5, rel=0.1)
    assert shown["high"] == pytest.approx(0.8, rel=0.1)
    assert all(shown["low"] < label < shown["high"] for label in shown["labels"])
    assert shown["smallest"] <= 100
    assert shown["largest"] >= 2000

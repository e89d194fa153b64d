"""The page as a file: what it holds, how large it is, what it refuses."""

import json
import re
from html import escape
from itertools import pairwise

import pandas as pd
import pytest
from planted import planted
from report_tables import EVIL, TABLES, loss_table, validation_table

from prunecast import choose, fit
from prunecast.choice import question_for
from prunecast.errors import PrunecastError, sentence
from prunecast.laws import verdict
from prunecast.report import page
from prunecast.report.answers import answers, targets, too_high
from prunecast.report.curves import measured_curves, measured_rows
from prunecast.report.html import library, script_json
from prunecast.report.vega import ticks
from prunecast.table import read
from prunecast.wording import sentences

MOST_BYTES = 6_000_000


def own_part(html: str) -> str:
    """The page without the charting library."""
    return html.replace(library(), "")


def data_of(html: str) -> dict:
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1]
    )


def shown_size(held: dict) -> dict:
    """What is looked up for the number of examples shown first."""
    return held["sizes"][held["shown"]]


@pytest.mark.parametrize("name", TABLES)
def test_pages_are_small_and_name_no_other_place(written, name):
    html = written(name).read_text(encoding="utf-8")
    assert len(html.encode()) < MOST_BYTES
    assert not re.search(r"https?://|@import|url\(", own_part(html))


@pytest.mark.parametrize("name", ["measured", "planted"])
def test_every_part_is_there(written, name):
    html = written(name).read_text(encoding="utf-8")
    for part in ("answer", "fit", "parameters", "invariant", "studies", "unknown", "origin"):
        assert f'<section id="{part}"' in html
    studies = ("optimality", "extrapolation", "sensitivity", "invariance", "forms", "dips", "noise")
    assert all(f'id="study-{study}"' in html for study in studies)
    assert TABLES[name]().digest in html


def asked_of(law, most=160, **asked):
    """The answers of a page."""
    return answers(law, question_for(law, **asked), most)


def test_cells_are_text_wherever_they_stand(written):
    html = own_part(written("evil").read_text(encoding="utf-8"))
    assert EVIL not in html
    assert "window.hit = 1</script>" not in html
    assert html.count("<script") == 3
    assert "&lt;script&gt;window.hit" in html


@pytest.mark.parametrize("text", ["</script><script>", "<!--", "a & b", "\u2028"])
def test_json_cannot_leave_its_script(text):
    made = script_json({"cell": text})
    assert not set("<>&\u2028") & set(made)
    assert json.loads(made) == {"cell": text}


def test_the_page_looks_up_what_choose_says(written):
    held = shown_size(data_of(written("measured").read_text(encoding="utf-8")))["answers"]
    law = fit(TABLES["measured"](), law="auto")
    for entry in held[:: len(held) // 6]:
        chosen = choose(law, target_error=entry["target"])
        assert entry["met"] == chosen.met
        assert entry["headline"].startswith(
            "Train " if chosen.met else "No network here meets it. The closest is "
        )
        assert entry["notes"] == sentences(chosen.findings)
        assert entry["data"]["chosen"][0]["size"] == float(f"{chosen.answer.stored_parameters:.5g}")
        assert entry["data"]["chosen"][0]["error"] == float(f"{chosen.answer.error:.5g}")


def test_every_known_measure_has_its_own_answers(written):
    held = data_of(written("costs").read_text(encoding="utf-8"))
    law = fit(TABLES["costs"](), law="auto")
    assert held["measures"] == ["stored parameters", "bytes", "latency", "multiply-adds"]
    assert held["examples"] == ["50,000", "12,500"]
    names = [(name, n) for name in ("stored", "bytes", "latency", "multiply-adds") for n in (50_000, 12_500)]
    size = {"stored": "stored_parameters", "latency": "latency_ms", "multiply-adds": "multiply_adds"}
    for (measure, n), one in zip(names, held["sizes"], strict=True):
        entry = one["answers"][one["start"]]
        best = choose(law, target_error=entry["target"], minimise=measure, num_examples=n).answer
        shown = entry["data"]["chosen"][0]
        assert shown["size"] == float(f"{getattr(best, size.get(measure, measure)):.5g}")
        assert one["view"]["smallest"] <= shown["size"] <= one["view"]["largest"]
        assert one["view"]["unit"] == {"latency": "ms", "multiply-adds": "multiply-adds per image"}.get(
            measure, "stored parameters" if measure == "stored" else measure
        )
    html = page(TABLES["costs"](), minimise="latency", studies=False).html
    assert data_of(html)["measures"] == ["latency", "stored parameters", "bytes", "multiply-adds"]


def test_what_is_said_of_scattered_zeros_is_left_out_of_tables_of_channels(written):
    assert "Zeros scattered over the weights" in written("planted").read_text(encoding="utf-8")
    assert "Zeros scattered over the weights" not in written("costs").read_text(encoding="utf-8")


def test_latencies_are_said_in_words_without_marks(written):
    facts = [
        fact
        for one in data_of(written("costs").read_text(encoding="utf-8"))["sizes"][0]["answers"]
        for fact in one["facts"]
    ]
    latencies = [fact for fact in facts if fact[0] == "Latency"]
    assert latencies
    assert not any("`" in word for fact in facts for word in fact)


def test_a_table_that_knows_one_measure_has_no_selector(written):
    html = written("measured").read_text(encoding="utf-8")
    assert data_of(html)["measures"] == ["stored parameters"]
    assert 'id="measure"' not in html


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_a_looser_target_never_needs_a_larger_network(law):
    sizes = [a.answer.stored_parameters for a in asked_of(fit(TABLES["measured"](), law=law)) if a.met]
    assert len(sizes) > 60
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("law", ["eq2", "dip"])
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_the_first_target_is_the_last_that_nothing_meets(law, confidence):
    found = asked_of(fit(TABLES["all sizes"](), law=law), most=5, num_examples=3125, confidence=confidence)
    assert [one.met for one in found] == [False] + [True] * (len(found) - 1)
    wanted = [one.question.target_error for one in found]
    assert wanted[1] / wanted[0] == pytest.approx(1, abs=0.001)
    assert wanted == [float(f"{target:.4g}") for target in wanted]


def test_a_lowest_target_asked_for_is_the_one_that_is_told_of():
    html = page(TABLES["measured"](), target_error=0.05, studies=False).html
    assert 'value="0.05" aria-label' in html
    held = shown_size(data_of(html))
    assert held["start"] == 0
    assert not any("0.1" in note for note in held["least"]["notes"])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (TABLES["measured"], [(0.9, "{} needs no network"), (None, "Any network reaches {}")]),
        (loss_table, [(None, "Any network reaches {}")]),
    ],
)
def test_errors_that_need_no_network_are_told_of(table, said):
    law = fit(table(), law="eq2")
    found = too_high(law)
    assert [one["from"] for one in found] == [start or law.high_error for start, _ in said]
    for one, (_, words) in zip(found, said, strict=True):
        assert one["headline"].startswith(words)


def test_a_page_answers_targets_above_what_an_unusable_law_guesses():
    law = fit("cifar10-densenet-8ep")
    assert not verdict(law).usable
    assert [one["from"] for one in too_high(law)] == [0.9]
    found = asked_of(law, most=20)
    asked = found[-1].question.target_error
    assert asked > 0.9 * law.high_error
    assert found[-1].answer == choose(law, target_error=asked).answer


@pytest.mark.parametrize(("low", "high"), [(0.11, 0.8), (0.004, 0.05), (0.06, 0.97), (0.3, 5.0)])
def test_targets_are_round_dense_and_not_too_many(low, high):
    found = targets(low, high)
    steps = [b / a for a, b in pairwise(found)]
    assert low <= found[0] <= low * 1.05
    assert high / 1.05 <= found[-1] <= high
    assert min(steps) > 1
    assert max(steps) < 1.06
    assert len(found) <= 160


def test_a_table_too_small_to_fit_says_what_is_missing(written):
    html = written("tiny").read_text(encoding="utf-8")
    assert "No law could be fitted" in html
    assert "cannot determine 3 parameters" in html
    assert 'id="slider"' not in html


def test_a_law_that_cannot_answer_says_why():
    frame = planted(configurations=3, depths=(20,), widths=(0.25, 0.5, 1), num_examples=(50_000,))
    learned = frame[["depth", "width", "num_examples", "density", "error"]]
    lost = learned.assign(num_examples=500, error=0.9)
    made = page(read(pd.concat([learned, lost])), studies=False)
    assert made.missing.startswith("No answer can be given: ")
    with pytest.raises(PrunecastError) as refused:
        choose(fit(read(pd.concat([learned, lost])), law="auto"), target_error=0.3, num_examples=500)
    assert sentence(refused.value) in made.missing
    assert escape(made.missing, quote=True).replace("&#x27;", "&#39;") in made.html
    assert 'id="slider"' not in made.html
    assert page(read(learned), studies=False).missing == ""


def test_the_slider_starts_where_it_is_told():
    held = shown_size(data_of(page(TABLES["measured"](), target_error=0.3, studies=False).html))
    assert held["answers"][held["start"]]["target"] == 0.3


@pytest.mark.parametrize(("asked", "first"), [(None, "50,000"), (6250, "6,250"), (20_000, "20,000")])
def test_every_number_of_examples_can_be_selected(asked, first):
    held = data_of(page(TABLES["all sizes"](), num_examples=asked, studies=False).html)
    listed = [one["examples"] for one in held["sizes"]]
    assert shown_size(held)["examples"] == first
    assert set(listed) == {"50,000", "6,250", "3,125", first}
    law = fit(TABLES["all sizes"](), law="auto")
    for one in held["sizes"]:
        entry = one["answers"][one["start"]]
        chosen = choose(
            law, target_error=entry["target"], num_examples=float(one["examples"].replace(",", ""))
        )
        assert entry["data"]["chosen"][0]["size"] == float(f"{chosen.answer.stored_parameters:.5g}")
        frontier = held["datasets"][one["datasets"]["frontier"]]
        assert len(frontier["rows"]) == sum(answer["met"] for answer in one["answers"])


def test_a_table_of_losses_speaks_of_losses():
    html = page(loss_table(), studies=True).html
    text = re.sub(r"<style>.*?</style>|<script>.*?</script>", "", own_part(html), flags=re.DOTALL)
    titles = set(re.findall(r'"title":"([^"]*)"', text))
    assert {"test loss", "measured loss", "predicted loss"} <= titles
    assert "Largest loss you accept" in text
    assert re.findall(r".{0,20}\b[Ee]rrors?\b.{0,20}", text.replace('"error"', "")) == []


def test_validation_errors_are_shown_where_every_row_has_one():
    table = validation_table()
    held = shown_size(data_of(page(table, studies=False).html))
    chosen = choose(table, target_error=held["answers"][held["start"]]["target"])
    assert held["answers"][held["start"]]["data"]["chosen"][0]["error"] == float(f"{chosen.answer.error:.5g}")
    assert '"title":"validation error"' in page(table, studies=False).html


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"minimise": "grams"}, "no measure"),
        ({"minimise": "bytes"}, "has no column bytes"),
        ({"num_examples": -1.0}, "positive"),
        ({"sizes": "all"}, "sizes can be"),
    ],
)
def test_a_wrong_option_is_a_sentence(options, words):
    with pytest.raises(PrunecastError, match=words):
        page(TABLES["measured"](), studies=False, **options)


@pytest.mark.parametrize("ends", [(0.11, 0.9), (100.0, 3e5), (0.004, 1.0), (0.2, 0.21), (5.0, 5.0)])
def test_axes_are_labelled_in_few_plain_numbers(ends):
    found = ticks(ends)
    assert 1 <= len(found) <= 11
    assert all("e" not in f"{value:.10g}" for value in found)


@pytest.mark.parametrize("law", ["eq2", "dip"])
@pytest.mark.parametrize("name", ["measured", "all sizes", "planted"])
def test_what_is_shown_is_what_was_fitted(name, law):
    table = TABLES[name]()
    fitted = fit(table, law=law)
    shown = measured_rows(table, fitted)
    assert shown.deviation.mean() == pytest.approx(fitted.deviation.mean, abs=1e-9)
    assert shown.deviation.std() == pytest.approx(fitted.deviation.std, abs=1e-9)


@pytest.mark.parametrize("law", ["eq2", "dip"])
def test_curves_pass_where_the_law_predicts(law):
    fitted = fit(TABLES["measured"](), law=law)
    unpruned = {own.width: own.unpruned_error for own in fitted.configurations}
    for curve in measured_curves(fitted):
        asked = {"width": curve.width, "unpruned_error": unpruned[curve.width]}
        said = fitted.predict(curve.density, **asked).error
        assert curve.error == pytest.approx(said, rel=1e-9)

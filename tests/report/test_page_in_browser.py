"""The page as a person meets it: in a real browser, from a file, by slider and by keyboard."""

import json
import re

import pytest
from report_tables import TABLES, many_widths

from prunecast import choose, fit
from prunecast.report import page as page_of
from prunecast.wording import numbers

pytestmark = pytest.mark.slow
DRAWN = "[...document.querySelectorAll('[data-chart]')].every(place => place.querySelector('svg path'))"

CLIPPED = """[...document.querySelectorAll('.chart svg')].flatMap((svg) => {
  const { left, right } = svg.getBoundingClientRect();
  const outside = (box) => box.right > right + 1 || box.left < left - 1;
  return [...svg.querySelectorAll('text')].filter((text) => outside(text.getBoundingClientRect()))
    .map((text) => text.textContent);
})"""
"""Words of charts that run over their edge."""
LINES = """(it) => {
  const range = document.createRange();
  range.selectNodeContents(it);
  return range.getClientRects().length;
}"""
"""Lines that the words of a cell take."""


def place_of_answer(page) -> tuple[float, float]:
    """Where the chosen network's dot stands, in pixels."""
    dot = page.locator("#chart-answer .layer_5_marks path, #chart-answer .layer_6_marks path").last
    box = dot.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize("name", ["measured", "all sizes", "planted", "costs", "evil", "tiny", "one"])
def test_every_page_draws_its_charts_and_asks_for_nothing(written, visit, name):
    path = written(name)
    seen = visit(path)
    assert seen.page.evaluate(DRAWN)
    assert seen.requests == [path.as_uri()] or set(seen.requests) <= {path.as_uri(), "data:,"}
    assert seen.complaints == []
    assert seen.page.evaluate("window.hit") is None


def test_the_slider_moves_the_answer_and_the_dot(written, visit):
    page = visit(written("measured")).page
    headline, facts = page.locator("#headline").inner_text(), page.locator("#facts").inner_text()
    before = place_of_answer(page)
    page.locator("#slider").evaluate("(it) => { it.value = 5; it.dispatchEvent(new Event('input')); }")
    page.wait_for_timeout(200)
    assert page.locator("#headline").inner_text() != headline
    assert page.locator("#facts").inner_text() != facts
    after = place_of_answer(page)
    assert after[0] > before[0] + 20
    assert after[1] > before[1] + 20


@pytest.mark.parametrize(("key", "step"), [("ArrowRight", 1), ("ArrowLeft", -1)])
def test_the_slider_obeys_the_keyboard(written, visit, key, step):
    page = visit(written("measured")).page
    slider = page.locator("#slider")
    start = int(slider.input_value())
    slider.focus()
    page.keyboard.press(key)
    assert int(slider.input_value()) == start + step
    answers = json.loads(page.locator("#data").text_content())["sizes"][0]["answers"]
    assert page.locator("#headline").inner_text() == answers[start + step]["headline"]
    assert answers[start + step]["headline"] in slider.get_attribute("aria-valuetext")


def test_the_number_of_examples_is_selected_by_keyboard(written, visit):
    seen = visit(written("all sizes"))
    page = seen.page
    sizes = json.loads(page.locator("#data").text_content())["sizes"]
    assert page.get_by_label("Training examples", exact=True).input_value() == "0"
    before, dots = place_of_answer(page), page.locator("#chart-answer .mark-symbol path").count()
    page.locator("#box").fill("0.3")
    page.get_by_label("Training examples", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(300)
    assert page.get_by_label("Training examples", exact=True).input_value() == "1"
    assert f"for {sizes[1]['examples']} training examples" in page.locator("#answer-notes").inner_text()
    met = [one for one in sizes[1]["answers"] if one["target"] <= 0.3][-1:] or sizes[1]["answers"][:1]
    assert page.locator("#headline").inner_text() == met[0]["headline"]
    assert int(page.locator("#slider").get_attribute("max")) == len(sizes[1]["answers"]) - 1
    assert place_of_answer(page) != before
    labels = page.locator("#chart-answer .role-axis-label").last.locator("text").all_text_contents()
    assert sorted(map(float, labels)) == sizes[1]["view"]["labels"]
    assert page.locator("#chart-answer .mark-symbol path").count() != dots
    shown = [place.get_attribute("data-size") for place in page.locator("[data-size]:visible").all()]
    assert shown == ["1"]
    assert seen.complaints == []


def test_the_measure_is_selected_by_keyboard(written, visit):
    seen = visit(written("costs"))
    page = seen.page
    held = json.loads(page.locator("#data").text_content())
    target = held["sizes"][4]["answers"][held["sizes"][4]["start"]]["shown"]
    page.locator("#box").fill(target)
    selector = page.get_by_label("Smallest by", exact=True)
    selector.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.wait_for_timeout(300)
    assert selector.input_value() == "2"
    latency = held["sizes"][4]
    assert page.locator("#headline").inner_text() == latency["answers"][latency["start"]]["headline"]
    assert page.locator("#chart-answer .role-axis-title").all_text_contents()[0] == "ms"
    labels = page.locator("#chart-answer .role-axis-label").first.locator("text").all_text_contents()
    assert sorted(map(float, labels)) == latency["view"]["sizes"]
    page.get_by_label("Training examples", exact=True).select_option("1")
    page.wait_for_timeout(300)
    assert [one.get_attribute("data-size") for one in page.locator("[data-size]:visible").all()] == ["5"]
    assert seen.complaints == []


def test_everything_that_acts_is_reached_by_tab(written, visit):
    page = visit(written("all sizes")).page
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"slider", "box", "examples", "SUMMARY", "A"} <= reached


def test_a_typed_target_shows_what_choose_says(written, visit):
    page = visit(written("measured")).page
    page.locator("#box").fill("0.2")
    best = choose(fit(TABLES["measured"](), law="auto"), target_error=0.2).answer
    facts = page.locator("#facts").inner_text()
    assert f"{best.stored_parameters:,}" in facts
    assert numbers.density(best.density) in facts
    assert page.locator("#heard").inner_text() == ""


@pytest.mark.parametrize(
    ("typed", "heard"),
    [
        ("0.2003", "the answer for 0.2"),
        ("0,25", ""),
        ("0.0001", ""),
        ("20%", ""),
        ("nonsense", "Write an error such as"),
        ("-1", "Write an error such as"),
        ("0", "Write an error such as"),
        ("", "Write an error such as"),
        ("20", "below 1: for 20% write 0.2"),
        ("0.95", "Ask for a lower error"),
    ],
)
def test_whatever_is_typed_gets_a_sentence(written, visit, typed, heard):
    seen = visit(written("measured"))
    seen.page.locator("#box").fill("0.3")
    seen.page.locator("#box").fill(typed)
    said = seen.page.locator("#heard").inner_text()
    assert heard in said
    assert bool(heard) == bool(said)
    assert seen.complaints == []


@pytest.mark.parametrize("size", ["50,000", "3,125"])
def test_below_what_is_met_the_page_speaks_of_the_target_that_was_typed(written, visit, size):
    page = visit(written("all sizes")).page
    held = json.loads(page.locator("#data").text_content())["sizes"]
    lowest = next(one for one in held if one["examples"] == size)["answers"][0]
    page.locator("#box").fill("0.01")
    page.locator("#examples").select_option(label=size)
    headline, said = page.locator("#headline").inner_text(), page.locator("#answer").inner_text()
    assert headline.startswith(
        "No network here reaches 0.01 with probability 0.8. The lowest error that 80% of training runs reach is "
    )
    assert page.locator("#slider").get_attribute("aria-valuetext") == f"0.01: {headline}"
    for words in ("No network of these sizes reaches", "is predicted to meet the target", lowest["shown"]):
        assert words not in page.locator("#answer-notes").inner_text()
    assert "the target is not met" in said
    page.locator("#box").fill(lowest["shown"])
    assert page.locator("#headline").inner_text() == lowest["headline"]
    assert f"reaches {lowest['shown']}" in page.locator("#answer-notes").inner_text()


def test_what_guessing_reaches_needs_no_network(written, visit):
    page = visit(written("measured")).page
    page.locator("#box").fill("0.93")
    assert page.locator("#headline").inner_text() == "0.93 needs no network: guessing has an error of 0.9."
    assert page.locator("#facts").inner_text() == ""
    page.locator("#box").fill("nonsense")
    page.locator("#box").fill("0.2")
    assert page.locator("#headline").inner_text().startswith("Train depth")


def test_another_number_of_examples_is_answered_whatever_stands_in_the_box(written, visit):
    page = visit(written("all sizes")).page
    size = json.loads(page.locator("#data").text_content())["sizes"][1]
    page.locator("#box").fill("nonsense")
    page.locator("#examples").select_option(label=size["examples"])
    assert page.locator("#headline").inner_text() == size["answers"][size["start"]]["headline"]


@pytest.mark.parametrize("name", ["all sizes", "planted", "tiny", "evil", "one"])
@pytest.mark.parametrize("width", [320, 768])
def test_a_narrow_screen_never_scrolls_sideways(written, visit, name, width):
    page = visit(written(name), viewport={"width": width, "height": 700}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []


@pytest.mark.parametrize("width", [420, 1280])
def test_long_legends_go_on_in_another_line(visit, tmp_path, width):
    path = tmp_path / "widths.html"
    path.write_text(page_of(many_widths(), studies=False).html, encoding="utf-8")
    page = visit(path, viewport={"width": width, "height": 700}).page
    assert page.evaluate(CLIPPED) == []


def test_tables_beside_a_chart_show_all_columns_on_a_wide_screen(written, visit):
    page = visit(written("one"), viewport={"width": 1280, "height": 700}).page
    scrolled = "(all) => all.filter((it) => it.scrollWidth > it.clientWidth).map((it) => it.textContent)"
    assert page.locator(".beside .scroll").evaluate_all(scrolled) == []


def test_a_phone_shows_the_columns_that_matter_and_where_a_table_goes_on(written, visit):
    page = visit(written("all sizes"), viewport={"width": 420, "height": 800}).page
    page.evaluate("document.querySelectorAll('details').forEach((it) => { it.open = true; })")
    for study, column in (("extrapolation", "Predicted"), ("forms", "Left out")):
        head = page.locator(f"#study-{study} th", has_text=column).bounding_box()
        assert head["x"] + head["width"] <= 420 - 17, study
    law = page.locator("#study-extrapolation td:nth-child(2)", has_text="the dip law").first
    assert law.evaluate(LINES) == 1
    wide = page.locator("#study-extrapolation .scroll")
    assert wide.evaluate("(it) => it.scrollWidth > it.clientWidth")
    assert "local" in wide.evaluate("(it) => getComputedStyle(it).backgroundAttachment")
    page.emulate_media(media="print")
    assert wide.evaluate("(it) => getComputedStyle(it).backgroundImage") == "none"


def brightness(page, selector: str, which: str) -> float:
    colour = page.locator(selector).first.evaluate(f"(it) => getComputedStyle(it).{which}")
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_legible(written, visit, scheme):
    page = visit(written("measured"), color_scheme=scheme).page
    paper = brightness(page, "body", "backgroundColor")
    assert (paper > 200) == (scheme == "light")
    for selector, which in (
        ("h1", "color"),
        ("td", "color"),
        (".mark-text text", "fill"),
        ("label", "color"),
    ):
        assert abs(brightness(page, selector, which) - paper) > 80, selector


def test_studies_are_folded_with_their_conclusions_in_sight(written, visit):
    page = visit(written("measured")).page
    studies = page.locator("details.study")
    assert studies.count() >= 5
    assert page.locator("details.study[open]").count() == 0
    first = studies.first
    assert first.locator("summary h3").is_visible()
    assert not first.locator(".folded").is_visible()
    first.locator("summary h3").click()
    assert first.locator(".folded").is_visible()


def test_a_link_to_a_study_opens_it(written, chromium):
    page = chromium.new_page()
    page.goto(written("measured").as_uri() + "#study-forms")
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#study-forms details.study[open]").count() == 1
    assert page.locator("details.study[open]").count() == 1
    page.close()


def test_print_is_light_and_opens_what_is_folded(written, visit):
    page = visit(written("measured"), color_scheme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert brightness(page, "body", "backgroundColor") > 200
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("#slider").is_visible()


def test_charts_have_names_and_tables_beside_them(written, visit):
    page = visit(written("measured")).page
    named = "(place) => !!place.parentElement.querySelector('[role=graphics-document][aria-label*=\" \"]')"
    for chart in page.locator("[data-chart]").all():
        assert chart.evaluate(named), chart.get_attribute("id")
    page.locator("#answer summary").click()
    assert page.locator("#answer table tbody tr").count() > 5


def test_pointing_at_a_dot_shows_its_cells_as_text(written, visit):
    seen = visit(written("evil"))
    seen.page.locator("#chart-fitted path[aria-roledescription=point]").last.hover()
    seen.page.wait_for_timeout(300)
    assert seen.page.evaluate("window.hit") is None
    assert seen.page.locator("#vg-tooltip-element").inner_text().startswith("depth")


def test_without_scripts_the_answers_are_still_there(written, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(written("measured").as_uri())
    assert "Train depth" in page.locator("#headline").inner_text()
    assert page.locator("noscript").count() == 1
    context.close()

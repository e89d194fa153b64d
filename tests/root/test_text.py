"""Helpers for text: numbers of things, durations, lists, numbers as people type them, misspelt names."""

import math

import pytest

from prunecast.errors import PrunecastError
from prunecast.sweep.status import PlanEdit
from prunecast.sweep.wording import edit_sentence
from prunecast.text import (
    capital,
    duration,
    listed,
    nearest,
    normalized,
    parse_number,
    plain_count,
    plural,
    printable,
)


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 chains are"), (1, "1 chain is"), (2, "2 chains are"), (1200, "1,200 chains are")],
)
def test_one_and_many(amount, words):
    assert plural(amount, "chain", "is", "are") == words
    assert plural(amount, "chain") == words.rsplit(" ", 1)[0]


def test_an_edited_plan_counts_right():
    text = edit_sentence(PlanEdit(added=1, removed=2, recapped=1))
    assert "1 chain is new, 1 chain has a different level cap, 2 chains were removed" in text


@pytest.mark.parametrize(
    ("items", "words"), [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", 3), "a, b and 3")]
)
def test_lists(items, words):
    assert listed(items) == words
    assert listed(items, "or") == words.replace(" and ", " or ")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            ("0.25", 0.25),
            ("1/16", 1 / 16),
            (" 1/4 ", 0.25),
            ("2e3", 2000),
            ("12.7 %", 0.127),
            ("1/2%", 0.005),
        ),
        *(("1e999999999%", math.inf), ("1e-999999999%", 0), ("0e999999999%", 0)),
    ],
)
def test_numbers(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "1/0", "1/2/3", "1,5", "%", "5%%"])
def test_what_is_no_number(text):
    with pytest.raises(ValueError, match=r".*"):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [("the dip law", "The dip law"), ("BLEU error", "BLEU error"), ("mAP error", "mAP error"), ("", "")],
)
def test_a_capital_letter_spares_words_that_have_their_own(text, words):
    assert capital(text) == words


def test_misspelt_names():
    assert nearest("densty", ["depth", "density"]) == "density"
    assert nearest("zzz", ["depth", "density"]) is None


def test_names_that_are_the_same():
    assert normalized("CIFAR-10") == normalized("cifar 10") == normalized("Cifar_10") == "cifar10"


def test_durations_have_two_units():
    cases = {
        0.4: "0 s",
        59: "59 s",
        60: "1 min",
        61: "1 min 1 s",
        3600: "1 h",
        5430: "1 h 30 min",
        90000: "1 d 1 h",
    }
    assert {seconds: duration(seconds) for seconds in cases} == cases


def test_nothing_printed_can_act_on_a_terminal():
    assert printable("a\x1b[31mb\x07\x9bc\udcff\u202e") == r"a\u001b[31mb\u0007\u009bc\udcff\u202e"
    assert printable("den\u200bsity\ufeff") == r"den\u200bsity\ufeff"
    assert printable("ε_np → 0.1\n\tend") == "ε_np → 0.1\n\tend"
    assert str(PrunecastError("no \x1b]0;title\x07 here")) == r"no \u001b]0;title\u0007 here"


def test_counts_are_plain_digits_of_some_length():
    cases = {"0": 0, "4": 4, "999999": 999_999, "04": None, "": None, "-1": None, "٤": None, "9" * 5000: None}
    assert {text: plain_count(text) for text in cases} == cases

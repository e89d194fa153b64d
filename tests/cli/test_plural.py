"""Numbers of things are said as people say them."""

import pytest

from prunecast.plural import plural
from prunecast.sweep.memory import Edited


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 chains are"), (1, "1 chain is"), (2, "2 chains are"), (1200, "1,200 chains are")],
)
def test_one_and_many(amount, words):
    assert plural(amount, "chain", "is", "are") == words
    assert plural(amount, "chain") == words.rsplit(" ", 1)[0]


def test_an_edited_plan_counts_right():
    text = Edited(new=1, gone=2, caps=1).text
    assert "1 chain is new, 1 chain has another level cap, 2 chains are no longer in it" in text

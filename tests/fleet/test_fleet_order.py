"""Levels of the chains with the most work left go first, and keep their place while a level is closed."""

from concurrent.futures import Future

import pytest

from prunecast.fleet.ranks import Rank
from prunecast.fleet.under_way import LONG, Training, UnderWay


def ranked(team, work, steps=10 * LONG):
    return Rank(team=(team,), work=work, steps=steps)


def busy(*, training=(), closing=()):
    own = UnderWay()
    for one in training:
        own.training[Future()] = Training(rank=one, share=0.1)
    for one in closing:
        own.closing[Future()] = one
    return own


@pytest.mark.parametrize(
    ("own", "training", "closing", "starts"),
    [
        (ranked("a", 9.0), [], [], True),
        (ranked("c", 1.0), [ranked("a", 9.0)], [], True),
        (ranked("c", 1.0), [ranked("a", 9.0), ranked("b", 5.0)], [], False),
        (ranked("a", 9.0), [ranked("b", 5.0), ranked("c", 1.0)], [], True),
        (ranked("c", 1.0), [ranked("b", 5.0)], [ranked("a", 9.0)], False),
        (ranked("c", 1.0), [ranked("b", 5.0)], [ranked("b", 5.0)], True),
        (ranked("b", 5.0), [ranked("c", 6.0)], [ranked("d", 1.0)], True),
        (ranked("c", 1.0, steps=LONG), [ranked("b", 5.0)], [ranked("a", 9.0)], True),
    ],
    ids=[
        "nobody there",
        "a place is free",
        "all places taken",
        "with more work than others",
        "the place of who closes",
        "a team counts once",
        "who closes has less work",
        "short levels do not wait",
    ],
)
def test_two_places(own, training, closing, starts):
    assert busy(training=training, closing=closing).leaves_room(own, 2) is starts

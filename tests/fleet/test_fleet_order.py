"""Levels of the chains with the most work left go first; such a chain keeps its place while a level is closed."""

import pytest

from prunecast.fleet.queue import LONG, InProgress, Rank, Training


def ranked(group, work, steps=10 * LONG):
    return Rank(group=(group,), work=work, steps=steps)


def busy(*, training=(), closing=()):
    return InProgress(training=[Training(rank=one, share=0.1) for one in training], closing=list(closing))


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
        "a group counts once",
        "who closes has less work",
        "short levels do not wait",
    ],
)
def test_two_places(own, training, closing, starts):
    assert busy(training=training, closing=closing).leaves_room(own, 2) is starts

"""No stream has two owners at the same time."""

import gc
import itertools
import weakref

import pytest

from prunecast.fleet import streams


class Stream:
    """Like torch's streams, it should not be referred to weakly."""

    __slots__ = ("cuda_stream",)

    def __init__(self, number):
        self.cuda_stream = number


@pytest.fixture(autouse=True)
def unused(monkeypatch):
    monkeypatch.setattr(streams, "IN_USE", weakref.WeakValueDictionary())


def test_streams_handed_out_in_turn_have_one_owner_until_it_is_gone():
    turn = itertools.cycle(range(4))

    def take():
        return streams.first_free(Stream(next(turn)) for _ in range(4))

    own = [take() for _ in range(4)]
    assert sorted(one.stream.cuda_stream for one in own) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="All streams"):
        take()
    free = own.pop(2).stream.cuda_stream
    gc.collect()
    assert streams.streams_left() == 64 - 3
    assert take().stream.cuda_stream == free


def test_streams_themselves_are_not_referred_to_weakly():
    with pytest.raises(TypeError):
        weakref.ref(Stream(0))
    assert streams.first_free([Stream(0)]).stream.cuda_stream == 0

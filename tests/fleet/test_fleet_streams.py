"""No two owners have one stream at the same time."""

import gc
import itertools

import pytest

from prunecast.fleet.streams import Streams


class Stream:
    def __init__(self, number):
        self.cuda_stream = number


def test_streams_handed_out_in_turn_are_lent_once_until_they_are_let_go():
    streams, turn = Streams(), itertools.cycle(range(4))

    def lend():
        return streams.lend(Stream(next(turn)) for _ in range(4))

    own = [lend() for _ in range(4)]
    assert sorted(stream.cuda_stream for stream in own) == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="All streams"):
        lend()
    free = own.pop(2).cuda_stream
    gc.collect()
    assert streams.lent() == 3
    assert lend().cuda_stream == free

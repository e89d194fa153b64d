"""Waiting for packs counts as lost time where nobody trains meanwhile, and only there."""

from itertools import count

from prunecast.fleet.meter import Meter


def test_only_waiting_while_nobody_trains_is_idle():
    own = Meter(clock=map(float, count()).__next__)
    with own.doing("waiting"):  # from 1
        with own.doing("waiting"):  # 2 to 3
            pass
        with own.doing("training"), own.doing("waiting"):  # 4, 5 to 6, 7
            pass
    assert own.idle == 4.0  # 1 to 4, and 7 to 8
    with own.doing("training"):
        pass
    assert own.idle == 4.0
    assert own.spent == {"waiting": 9.0, "training": 4.0, "compiling": 0.0}

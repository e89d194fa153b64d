"""Work beside the training waits until nobody is kept from anything, and ends with the fleet."""

import threading
from concurrent.futures import ThreadPoolExecutor

from prunecast.fleet.beside import Beside


def test_work_begins_when_chains_are_open_and_nobody_waits_for_a_pack():
    beside, done = Beside(ThreadPoolExecutor(1)), threading.Event()
    beside.settle(False)
    with beside.put_off():
        beside.submit(done.set)
        beside.settle(True)
        assert not done.wait(0.05)
    beside.catch_up()
    assert done.is_set()
    beside.close()


def test_what_was_not_begun_is_not_begun_after_a_stop():
    beside, done = Beside(ThreadPoolExecutor(1)), []
    beside.settle(False)
    for number in range(3):
        beside.submit(lambda number=number: done.append(number))
    beside.stop()
    beside.catch_up()
    beside.settle(True)
    beside.close()
    assert done == []

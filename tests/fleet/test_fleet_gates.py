"""Many may share at once, one may be alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

from prunecast.fleet.gates import Gate


def test_sharers_meet_each_other_and_nobody_meets_who_is_alone():
    gate, meeting = Gate(), threading.Barrier(4)
    inside, seen, most = [], [], []

    def meet(_):
        with gate.shared():
            meeting.wait(30)  # passes only if all four are inside

    def share(_):
        for _ in range(200):
            with gate.shared():
                inside.append(1)
                seen.append(alone_now[0])
                inside.pop()

    def be_alone(_):
        for _ in range(100):
            with gate.alone(), gate.alone(), gate.shared():
                alone_now[0] = True
                most.append(len(inside))
                alone_now[0] = False

    alone_now = [False]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(meet, range(4)))
        list(pool.map(lambda task: task(0), [share] * 4 + [be_alone] * 2))
    assert len(seen) == 800
    assert not any(seen)
    assert most == [0] * 200

"""Many may call modules at once, one alone may trace."""

import threading
from concurrent.futures import ThreadPoolExecutor

from prunecast.fleet.host import Host


def test_sharers_meet_each_other_and_nobody_meets_who_is_alone():
    host, meeting = Host(), threading.Barrier(4)
    inside, seen, most = [], [], []

    def meet(_):
        with host.shared():
            meeting.wait(30)  # passes only if all four are inside

    def share(_):
        for _ in range(200):
            with host.shared():
                inside.append(1)
                seen.append(alone_now[0])
                inside.pop()

    def be_alone(_):
        for _ in range(100):
            with host.alone(), host.alone(), host.shared():
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


def test_compiling_keeps_tracers_out_and_lets_callers_in():
    host, order = Host(), []
    compiling, called = threading.Event(), threading.Event()

    def compile_slowly():
        with host.compiling():
            compiling.set()
            assert called.wait(30)  # passes only if a caller is let in meanwhile
            with host.alone():
                order.append("captured")

    def trace():
        compiling.wait(30)
        with host.alone():
            order.append("traced")

    def call():
        compiling.wait(30)
        with host.shared():
            called.set()

    with ThreadPoolExecutor(3) as pool:
        tasks = [pool.submit(task) for task in (compile_slowly, trace, call)]
        for task in tasks:
            task.result(60)
    assert order == ["captured", "traced"]

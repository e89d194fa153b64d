"""One thread uses the device. Host threads get host memory only, and a guard checks this."""

import signal
import threading
import time

import pytest
import torch
from fleet_digits import ANY, CPU, chain, doubled, fleet, folders, jobs_of

from prunecast import data
from prunecast.errors import StoreError
from prunecast.fleet import device, fleet_events
from prunecast.fleet.device import (
    GUARD,
    Loop,
    StreamEvent,
    WrongThreadError,
    host_threads,
    result_of,
    run_in_device_thread,
    run_to_the_end,
)


@pytest.fixture
def guarded():
    with GUARD.on():
        yield


FAMILIES = ("digits_cnn", "fleet_own:normalised_by_groups", "fleet_own:choosy")


def test_host_threads_of_a_fleet_never_touch_what_is_on_the_device(guarded, tmp_path, caplog):
    recipe = {"epochs": 3, "rewind": 1.0}
    jobs = jobs_of([chain(family=own, recipe=recipe, replicate=k) for own in FAMILIES for k in (0, 1)], cap=2)
    assert len(list(fleet(jobs, tmp_path))) == 6 * len(FAMILIES)
    assert "failed" not in caplog.text


def test_a_host_thread_that_uses_the_device_fails(guarded, tmp_path, monkeypatch, caplog):
    from prunecast.fleet import level

    write = level.start_contents

    def careless(placement):
        placement.members[0].chain.dataset.train.labels.sum()
        return write(placement)

    monkeypatch.setattr(level, "start_contents", careless)
    jobs = jobs_of([chain(recipe={"epochs": 2})], cap=0, dataset=data.load("digits"))
    list(fleet_events(jobs, tmp_path, device=CPU, options=ANY))
    assert "WrongThreadError" in caplog.text


def test_the_guard_knows_the_tensors_of_the_device(guarded):
    with host_threads(1, 1) as pool:
        tensor = torch.zeros(3)
        GUARD.own([tensor])
        with pytest.raises(WrongThreadError, match="uses a tensor of the device thread"):
            pool.submit(tensor.sum).result()
        assert pool.submit(torch.ones(3).sum).result() == 3


def test_only_one_thread_trains_and_builds(tmp_path, monkeypatch):
    from prunecast.fleet.runner import Runner
    from prunecast.fleet.runner_pool import RunnerPool

    seen = set()

    def noting(function):
        def call(*given, **named):
            seen.add(threading.current_thread().name)
            return function(*given, **named)

        return call

    monkeypatch.setattr(Runner, "advance", noting(Runner.advance))
    monkeypatch.setattr(RunnerPool, "build", noting(RunnerPool.build))
    digits = doubled()
    jobs = jobs_of([chain(width=width) for width in (0.5, 0.25, 1.0)], cap=1, dataset=digits)
    list(fleet(jobs, tmp_path))
    assert seen == {"device"}
    assert all(len(folder.records()) == 2 for folder in folders(jobs, tmp_path))


def test_a_loop_advances_others_while_one_waits():
    loop, order, ready = Loop(), [], threading.Event()

    def waiting(pool):
        order.append("waiting")
        order.append((yield from result_of(pool.submit(ready.wait))))

    def working():
        for number in range(3):
            order.append(number)
            yield StreamEvent()
        ready.set()

    with host_threads(1, 1) as pool:
        loop.start(waiting(pool))
        loop.start(working())
        while loop:
            loop.step()
    assert order == ["waiting", 0, 1, 2, True]


def test_what_a_coroutine_raises_ends_it_alone():
    loop, done = Loop(), []

    def failing():
        yield StreamEvent()
        raise ValueError("no")

    def working():
        yield StreamEvent()
        yield StreamEvent()
        done.append(True)

    loop.start(failing())
    loop.start(working())
    loop.step()
    with pytest.raises(ValueError, match="no"):
        loop.step()
    while loop:
        loop.step()
    assert done == [True]


def test_one_coroutine_can_be_run_by_itself():
    def counting():
        yield StreamEvent()
        return 3

    assert run_to_the_end(counting()) == 3


class Interrupted(BaseException):
    """What Ctrl-C raises, but under a name that pytest does not know."""


@pytest.fixture
def handlers():
    """Installs handlers of signals for one test."""
    usual = {}

    def install(number, handler):
        usual[number] = signal.signal(number, handler)

    yield install
    for number, handler in usual.items():
        signal.signal(number, handler)


def test_a_signal_stops_the_caller_even_after_one_that_was_handled_slowly(monkeypatch, handlers):
    monkeypatch.setattr(device, "LONGEST_WAIT", 0.1)
    stopped, in_time = threading.Event(), []

    def slow(*_):
        time.sleep(0.3)  # longer than a wait

    def interrupt(*_):
        raise Interrupted

    handlers(signal.SIGUSR1, slow)
    handlers(signal.SIGUSR2, interrupt)

    def serve(report):
        time.sleep(0.03)  # until the caller waits
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        time.sleep(0.6)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)  # does not wake the caller
        in_time.append(stopped.wait(60))

    with pytest.raises(Interrupted):
        list(run_in_device_thread(CPU, serve, lambda reason: stopped.set()))
    assert in_time == [True]


@pytest.mark.parametrize("chained", [False, True])
def test_what_a_failure_keeps_is_freed_by_the_device_thread(chained):
    freed = []

    class Graph:
        def __del__(self):
            freed.append(threading.current_thread().name)

    def using():
        graph = Graph()
        raise ValueError(f"{type(graph).__name__} failed")

    def serve(report):
        try:
            using()
        except ValueError as failure:
            if chained:
                raise StoreError("the disk is full") from failure
            raise

    with pytest.raises(StoreError if chained else ValueError) as raised:
        list(run_in_device_thread(CPU, serve, lambda reason: None))
    assert raised.value.__traceback__ is not None
    assert freed == ["device"]

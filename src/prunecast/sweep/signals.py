"""Signals and time limits that stop a command or a worker."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import NoReturn


def stop_on(errors: Mapping[signal.Signals, type[BaseException]]) -> None:
    """Raise an error at the first of these signals, and ignore later ones, which would interrupt saving."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        for signum in errors:
            signal.signal(signum, signal.SIG_IGN)
        raise errors[signal.Signals(number)](signal.Signals(number).name)

    for signum in errors:
        signal.signal(signum, stop)


class Stopped(SystemExit):
    """Stops a worker: it releases its chains, and fleets store checkpoints."""

    def __init__(self, name: str) -> None:
        """`name` is the name of the signal."""
        super().__init__(0)
        self.signal = name


def stop_after(driver_ended: Callable[[], object], grace: float) -> None:
    """Stop this worker as SIGTERM does once the function returns or raises, because the driver has ended.

    The process ends after another `grace` seconds in any case.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which then stops its workers
    stop_on({signal.SIGTERM: Stopped})

    def wait() -> None:
        with contextlib.suppress(EOFError, OSError):
            driver_ended()
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def raising_after(seconds: float | None, error: type[BaseException]) -> Iterator[None]:
    """Raise an error in the body after so many seconds; None means never."""
    if seconds is None:
        yield
        return

    def stop(number: int, _: FrameType | None) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

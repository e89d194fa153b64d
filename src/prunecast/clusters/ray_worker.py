"""The worker's side on a Ray cluster: a plain function of some chains and what the driver says beside them."""

import contextlib
import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

from prunecast.clusters.seen import check_code, check_store_seen
from prunecast.clusters.shares import work_share
from prunecast.errors import PrunecastError
from prunecast.sweep.events import Outcome, Progress, Share
from prunecast.sweep.work import Loaded, failed

Work = Callable[[Share, Path, str, Loaded], Iterator[Outcome]]
OUT_OF_TIME = 75
"""The exit code of a worker that did not stop by itself when its time was over."""
GRACE = 30.0
"""Seconds that a fleet has to store where its chains stand."""


class OutOfTime(BaseException):
    """The worker's time is over: a fleet stores where its chains stand, all else is left as after a kill."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What every worker of a run is told beside its chains."""

    store: Path
    mark: str
    code: str
    """The driver's version of the code."""
    paths: tuple[str, ...]
    """Where the driver finds modules, a user's own families among them."""
    work: Work = work_share


def run_share(
    share: Share, errand: Errand, device: str, minutes: float | None, grace: float = GRACE
) -> tuple[Outcome, ...]:
    """Run a share to its end, or for so many minutes.

    The outcomes are for a driver that cannot see the store's latest yet; it sends again what is not settled.
    """
    sys.path += [path for path in errand.paths if path not in sys.path]
    check_code(errand.code)
    check_store_seen(errand.store, errand.mark)
    torch.set_num_threads(1)
    told: list[Outcome] = []
    with (
        contextlib.suppress(OutOfTime),
        _at_most(minutes, grace),
        contextlib.closing(_outcomes(share, errand, device)) as outcomes,
    ):
        for outcome in outcomes:
            told.append(outcome)  # noqa: PERF402 - what was told before the alarm is kept
    return tuple(told)


def _outcomes(share: Share, errand: Errand, device: str) -> Generator[Outcome, None, None]:
    """What becomes of a share; a fleet that raises as a whole fails those that were not at their end."""
    left = {job.number: job for job in share}
    try:
        for outcome in errand.work(share, errand.store, device, _at_hand()):
            if not isinstance(outcome, Progress) or outcome.ended:
                left.pop(outcome.number, None)
            yield outcome
    except PrunecastError:  # a store that cannot be written, or a device that is not there
        raise
    except Exception as problem:
        for job in left.values():
            yield failed(job, errand.store, problem)


@functools.cache
def _at_hand() -> Loaded:
    """Datasets of this process, which Ray gives one share after the other."""
    return {}


@contextlib.contextmanager
def _at_most(minutes: float | None, grace: float) -> Iterator[None]:
    """Stop after so long; who has not stopped after the grace is ended, whatever it does: the store bears that."""
    if minutes is None:
        yield
        return
    last = threading.Timer(60 * minutes + grace, os._exit, (OUT_OF_TIME,))
    last.daemon = True
    last.start()
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        last.cancel()


def _stop(_: int, __: FrameType | None) -> None:
    raise OutOfTime

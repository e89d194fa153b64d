"""The worker's side on a Ray cluster: a plain function of some chains and what the driver says beside them."""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from prunecast.clusters.seen import check_code, check_store_seen
from prunecast.clusters.shares import work_share
from prunecast.errors import PrunecastError
from prunecast.sweep.events import Outcome, Progress, Share
from prunecast.sweep.work import Loaded, failed

Work = Callable[[Share, Path, str, Loaded], Iterator[Outcome]]
OUT_OF_TIME = 75


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


def run_share(share: Share, errand: Errand, device: str, minutes: float | None) -> tuple[Outcome, ...]:
    """Run a share to its end; the outcomes are for a driver that cannot see the store's latest yet."""
    sys.path += [path for path in errand.paths if path not in sys.path]
    check_code(errand.code)
    check_store_seen(errand.store, errand.mark)
    torch.set_num_threads(1)
    with _at_most(minutes):
        return tuple(_outcomes(share, errand, device))


def _outcomes(share: Share, errand: Errand, device: str) -> Iterator[Outcome]:
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
def _at_most(minutes: float | None) -> Iterator[None]:
    """End this process after so long, whatever it does: the store bears that, and the driver goes on."""
    if minutes is None:
        yield
        return
    alarm = threading.Timer(60 * minutes, os._exit, (OUT_OF_TIME,))
    alarm.daemon = True
    alarm.start()
    try:
        yield
    finally:
        alarm.cancel()

"""Where the time of a fleet's threads goes, and how long streams waited for packs while none trained."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

Doing = Literal["waiting", "training", "compiling"]
"""Waiting is for a pack: for its building and capturing, and for sizes of packs to be tried out."""


class Meter:
    """Counts who is doing what; may be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Nobody does anything yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._now: Counter[Doing] = Counter()
        self._since = clock()
        self.spent: dict[Doing, float] = {"waiting": 0.0, "training": 0.0, "compiling": 0.0}
        """Seconds of all threads together."""
        self.idle = 0.0
        """Seconds in which somebody waited and nobody trained."""

    @contextlib.contextmanager
    def doing(self, what: Doing) -> Iterator[None]:
        """Count one more who does this for a while."""
        self._change(what, 1)
        try:
            yield
        finally:
            self._change(what, -1)

    def _change(self, what: Doing, by: int) -> None:
        with self._lock:
            now = self._clock()
            for own, threads in self._now.items():
                self.spent[own] += threads * (now - self._since)
            if self._now["waiting"] and not self._now["training"]:
                self.idle += now - self._since
            self._now[what] += by
            self._since = now

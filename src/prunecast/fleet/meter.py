"""How long packs were built while none trained: the time that starting up costs a fleet."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

Doing = Literal["building", "training"]


class Meter:
    """Counts who is doing what; may be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Nobody does anything yet."""
        self._clock = clock
        self._lock = threading.Lock()
        self._now: Counter[Doing] = Counter()
        self._since = clock()
        self.idle = 0.0
        """Seconds in which somebody built and nobody trained."""

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
            if self._now["building"] and not self._now["training"]:
                self.idle += now - self._since
            self._now[what] += by
            self._since = now

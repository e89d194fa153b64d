"""Who may call modules when: torch.fx patches `nn.Module.__call__` for all threads while it traces.

Calling modules is shared. Tracing and capturing are done alone, and take moments. Compiling takes half a minute and
must not meet a tracer, but lets all others go on.
"""

import contextlib
import threading
from collections.abc import Iterator


class Host:
    """A lock that many threads share to call modules, and one has alone to trace or capture.

    Neither keeps the other waiting for long: who waits to be alone goes before those who come later to share,
    and who waits to share goes before the next one alone. Inside `compiling` a thread may ask for any of them,
    inside `alone` too, inside `shared` for none.
    """

    def __init__(self) -> None:
        """Nobody holds it."""
        self._free = threading.Condition()
        self._modules = threading.RLock()
        """Held to compile, trace or capture, before anybody is kept from calling modules."""
        self._sharing = 0
        self._queued = 0
        """Threads that wait to share."""
        self._admitted = 0
        """How many of them go first."""
        self._waiting = 0
        """Threads that wait to be alone."""
        self._owner: int | None = None

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Call modules, next to others who do."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._free:
            self._queued += 1
            try:
                self._free.wait_for(self._may_share)
                self._sharing += 1
                self._admitted = max(0, self._admitted - 1)
            finally:
                self._queued -= 1
        try:
            yield
        finally:
            with self._free:
                self._sharing -= 1
                self._free.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Do what changes modules for everybody."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._modules:
            yield from self._exclusively()

    def _exclusively(self) -> Iterator[None]:
        with self._free:
            self._waiting += 1
            try:
                self._free.wait_for(self._may_be_alone)
                self._owner = threading.get_ident()
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._free:
                self._owner, self._admitted = None, self._queued
                self._free.notify_all()

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Keep others from tracing and compiling, but not from calling modules."""
        with self._modules:
            yield

    def _may_share(self) -> bool:
        return self._owner is None and bool(self._admitted or not self._waiting)

    def _may_be_alone(self) -> bool:
        return self._owner is None and not self._sharing and not (self._admitted and self._queued)


HOST = Host()

"""Who may call modules when, and who may use the device.

torch.fx patches `nn.Module.__call__` for all threads while it traces, and so does the compiler: calling modules is
shared, tracing, compiling and capturing are done alone. Captured graphs need no modules, so training goes on meanwhile.
"""

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """A lock that many threads share, or one has alone.

    Neither keeps the other waiting for long: who waits to be alone goes before those who come later to share,
    and who waits to share goes before the next one alone. Inside `alone` a thread may ask for either, inside
    `shared` for none.
    """

    def __init__(self) -> None:
        """Nobody is inside."""
        self._free = threading.Condition()
        self._turn = threading.RLock()
        """Held by who is alone or waits to be."""
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
        """Go in, next to others who share."""
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
        """Go in when everybody is out, and let nobody in."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._turn:
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

    def _may_share(self) -> bool:
        return self._owner is None and bool(self._admitted or not self._waiting)

    def _may_be_alone(self) -> bool:
        return self._owner is None and not self._sharing and not (self._admitted and self._queued)


MODULES = Gate()
"""Shared by who calls modules, alone for who traces, compiles or captures."""
DEVICE = Gate()
"""Shared by who trains on the device, alone for who times something on it. Never asked for while modules are shared."""

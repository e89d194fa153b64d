"""Who may call modules when: torch.fx patches `nn.Module.__call__` for all threads while it traces."""

import contextlib
import threading
from collections.abc import Iterator


class Host:
    """A lock that many threads share to call modules, and one has alone to trace, compile or prune.

    Whoever waits to be alone goes before those who come later to share. Inside `alone` a thread may ask for
    either again; inside `shared` for neither.
    """

    def __init__(self) -> None:
        """Nobody holds it."""
        self._free = threading.Condition()
        self._sharing = 0
        self._waiting = 0
        self._owner: int | None = None

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Call modules, next to others who do."""
        if self._owner == threading.get_ident():
            yield
            return
        with self._free:
            self._free.wait_for(lambda: self._owner is None and not self._waiting)
            self._sharing += 1
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
        with self._free:
            self._waiting += 1
            try:
                self._free.wait_for(lambda: self._owner is None and not self._sharing)
                self._owner = threading.get_ident()
            finally:
                self._waiting -= 1
        try:
            yield
        finally:
            with self._free:
                self._owner = None
                self._free.notify_all()


HOST = Host()

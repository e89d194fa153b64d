"""Work that is done beside the training, one piece at a time, when nobody has to wait for it."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor


class Beside:
    """A thread for work that keeps modules to itself for long, such as compiling.

    It begins a piece when no chain is being opened and no pack is wanted, because both would have to wait.
    """

    def __init__(self, thread: ThreadPoolExecutor) -> None:
        """Nothing is to be done yet."""
        self._thread = thread
        self._changed = threading.Condition()
        self._settled, self._stopped = True, False
        self._in_need = 0
        self._pieces: list[Future[None]] = []

    def submit(self, piece: Callable[[], None]) -> None:
        """Do this when there is time."""
        self._pieces.append(self._thread.submit(self._at_leisure, piece))

    def settle(self, settled: bool) -> None:
        """Say whether no chain is being opened."""
        with self._changed:
            self._settled = settled
            self._changed.notify_all()

    @contextlib.contextmanager
    def put_off(self) -> Iterator[None]:
        """Begin nothing while somebody waits for a pack."""
        with self._changed:
            self._in_need += 1
        try:
            yield
        finally:
            with self._changed:
                self._in_need -= 1
                self._changed.notify_all()

    def catch_up(self) -> None:
        """Wait until everything is done."""
        for piece in self._pieces:
            piece.result()

    def stop(self) -> None:
        """Begin nothing any more; what was begun goes on."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, and wait for what was begun."""
        self.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _at_leisure(self, piece: Callable[[], None]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or (self._settled and not self._in_need))
            stopped = self._stopped
        if not stopped:
            piece()

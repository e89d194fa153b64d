"""A second stream for what nothing waits for until the end of a pass."""

import contextlib
import threading
from collections.abc import Iterator

import torch

from prunecast.fleet.streams import OwnStream, own_stream


@contextlib.contextmanager
def beside(device: torch.device) -> Iterator[None]:
    """Launch kernels so that those launched later need not wait for them; they start when all before are done."""
    if device.type != "cuda":
        yield
        return
    second = _second(device)
    second.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(second):
        yield


def meet(device: torch.device) -> None:
    """Let everything from now on wait for what was launched beside."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).wait_stream(_second(device))


class _Seconds(threading.local):
    """Every thread's own: what another launches on a stream would go into the graph that this one captures there."""

    def __init__(self) -> None:
        self.streams: dict[torch.device, OwnStream[torch.cuda.Stream]] = {}


_SECONDS = _Seconds()


def _second(device: torch.device) -> torch.cuda.Stream:
    """One for all packs: a graph keeps what was captured, not where."""
    if device not in _SECONDS.streams:
        _SECONDS.streams[device] = own_stream(device)
    return _SECONDS.streams[device].stream

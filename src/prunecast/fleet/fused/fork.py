"""A second stream for what nothing waits for until the end of a pass."""

import contextlib
from collections.abc import Iterator
from functools import cache

import torch

from prunecast.fleet.streams import own_stream


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


@cache
def _second(device: torch.device) -> torch.cuda.Stream:
    """One for all: a graph keeps what was captured there, not the stream, and one thread captures at a time."""
    return own_stream(device)

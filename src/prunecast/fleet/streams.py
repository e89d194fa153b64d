"""Streams of a device that no two packs share.

torch has 32 streams per priority and hands them out in turn, so the 33rd is the first again. CUDA graphs captured on
the same stream share the workspace of cuBLAS, so they would compute wrong numbers if they ran at the same time.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

IN_TURN = 32
PRIORITIES = (0, -1)


class Numbered(Protocol):
    """A stream; two objects with the same number are the same stream."""

    @property
    def cuda_stream(self) -> int: ...  # noqa: D102 - torch's word


Stream = TypeVar("Stream", bound=Numbered)


@dataclass(frozen=True, eq=False)
class ExclusiveStream(Generic[Stream]):
    """A stream that nothing else gets while this object lives.

    Never make weak references to torch's own streams: in some versions they dangle when a stream is freed, and reading
    one corrupts memory.
    """

    stream: Stream


IN_USE = weakref.WeakValueDictionary[int, ExclusiveStream[Any]]()
"""Streams in use, by number."""


def first_free(offered: Iterable[Stream]) -> ExclusiveStream[Stream]:
    """Take the first of the offered streams that is not in use."""
    for stream in offered:
        if stream.cuda_stream not in IN_USE:
            owned = ExclusiveStream(stream)
            IN_USE[stream.cuda_stream] = owned
            return owned
    raise RuntimeError("All streams of the device are in use; let fewer packs train at the same time.")


def exclusive_stream(device: torch.device) -> ExclusiveStream[torch.cuda.Stream]:
    """Take a stream of the device that is not in use."""
    return first_free(
        torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        for priority in PRIORITIES
        for _ in range(IN_TURN)
    )


def streams_left() -> int:
    """The number of free streams, if all streams in use are on one device."""
    return IN_TURN * len(PRIORITIES) - len(IN_USE)

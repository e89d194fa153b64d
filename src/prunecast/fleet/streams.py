"""Streams of a device that no two packs share.

torch has 32 of a priority and hands them out in turn, so the 33rd is the first again. Graphs captured on the same
stream share the scratch memory of matrix products, which would make wrong numbers when they run side by side.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch

IN_TURN = 32
PRIORITIES = (0, -1)


class Numbered(Protocol):
    """Two objects of the same number are the same stream."""

    @property
    def cuda_stream(self) -> int: ...  # noqa: D102 - torch's word


Stream = TypeVar("Stream", bound=Numbered)


@dataclass(frozen=True, eq=False)
class ExclusiveStream(Generic[Stream]):
    """A stream that no other object gets as long as this one lives.

    There must be no weak references to torch's streams: some versions leave them dangling when a stream is freed, and
    reading one corrupts memory.
    """

    stream: Stream


IN_USE = weakref.WeakValueDictionary[int, ExclusiveStream[Any]]()
"""By their numbers."""


def first_free(offered: Iterable[Stream]) -> ExclusiveStream[Stream]:
    """The first of the offered streams that is not in use, which is then."""
    for stream in offered:
        if stream.cuda_stream not in IN_USE:
            owned = ExclusiveStream(stream)
            IN_USE[stream.cuda_stream] = owned
            return owned
    raise RuntimeError("All streams of the device are in use; let fewer packs train at the same time.")


def exclusive_stream(device: torch.device) -> ExclusiveStream[torch.cuda.Stream]:
    """A stream of the device that no other object has."""
    return first_free(
        torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        for priority in PRIORITIES
        for _ in range(IN_TURN)
    )


def streams_left() -> int:
    """How many streams of a device are not in use, if all that are in use belong to it."""
    return IN_TURN * len(PRIORITIES) - len(IN_USE)

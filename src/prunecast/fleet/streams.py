"""Streams of a device that no two packs share.

torch has 32 of a priority and hands them out in turn, so the 33rd is the first again. Graphs captured on the same
stream share the scratch memory of matrix products, which would make wrong numbers when they run side by side.
"""

import weakref
from collections.abc import Iterable
from typing import Protocol, TypeVar

import torch

IN_TURN = 32
PRIORITIES = (0, -1)


class Numbered(Protocol):
    """Two objects of the same number are the same stream."""

    @property
    def cuda_stream(self) -> int: ...  # noqa: D102 - torch's word


Stream = TypeVar("Stream", bound=Numbered)


class Streams:
    """Who has which stream; one is free again when its owner has let go of the object."""

    def __init__(self) -> None:
        """Nobody has any."""
        self._lent: dict[int, weakref.ref[Numbered]] = {}

    def lend(self, offered: Iterable[Stream]) -> Stream:
        """The first of those offered that nobody has."""
        for stream in offered:
            owned = self._lent.get(stream.cuda_stream, lambda: None)
            if owned() is None:
                self._lent[stream.cuda_stream] = weakref.ref(stream)
                return stream
        raise RuntimeError("All streams of the device are in use; let fewer packs train at the same time.")

    def lent(self) -> int:
        """How many have an owner."""
        return sum(owned() is not None for owned in self._lent.values())


STREAMS = Streams()


def own_stream(device: torch.device) -> torch.cuda.Stream:
    """A stream that nobody else gets as long as this object lives."""
    return STREAMS.lend(
        torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        for priority in PRIORITIES
        for _ in range(IN_TURN)
    )


def streams_left() -> int:
    """How many streams of a device nobody has, if all that are lent are its."""
    return IN_TURN * len(PRIORITIES) - STREAMS.lent()

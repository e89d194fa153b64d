"""Streams of a device that no two packs share.

torch has 32 of a priority and hands them out in turn, so the 33rd is the first again. Graphs captured on the same
stream share the scratch memory of matrix products, which would make wrong numbers when they run side by side.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

IN_TURN = 32
PRIORITIES = (0, -1)


class Numbered(Protocol):
    """Two objects of the same number are the same stream."""

    @property
    def cuda_stream(self) -> int: ...  # noqa: D102 - torch's word


Stream = TypeVar("Stream", bound=Numbered)


@dataclass(frozen=True, eq=False)
class OwnStream(Generic[Stream]):
    """A stream that nobody else gets as long as this object lives.

    There must be no weak references to torch's streams: some versions leave them dangling when a stream is freed, and
    whoever reads one corrupts memory.
    """

    stream: Stream


class Streams:
    """Who has which stream."""

    def __init__(self) -> None:
        """Nobody has any."""
        self._owners: dict[int, weakref.ref[OwnStream[Numbered]]] = {}

    def take(self, offered: Iterable[Stream]) -> OwnStream[Stream]:
        """The first of those offered that nobody has."""
        for stream in offered:
            owner = self._owners.get(stream.cuda_stream)
            if owner is None or owner() is None:
                owned = OwnStream(stream)
                self._owners[stream.cuda_stream] = weakref.ref(owned)  # type: ignore[arg-type]
                return owned
        raise RuntimeError("All streams of the device are in use; let fewer packs train at the same time.")

    def taken(self) -> int:
        """How many have an owner."""
        return sum(owner() is not None for owner in self._owners.values())


STREAMS = Streams()


def own_stream(device: torch.device) -> OwnStream[torch.cuda.Stream]:
    """A stream of the device for one owner."""
    return STREAMS.take(
        torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        for priority in PRIORITIES
        for _ in range(IN_TURN)
    )


def streams_left() -> int:
    """How many streams of a device nobody has, if all that are taken are its."""
    return IN_TURN * len(PRIORITIES) - STREAMS.taken()

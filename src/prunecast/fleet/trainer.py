"""What the thread of a stream does: one level of a pack, or of a chain that trains alone."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor

import torch
from torch import Tensor

from prunecast.errors import StoreError
from prunecast.fleet.alone import Lone, lone
from prunecast.fleet.course import Stopped
from prunecast.fleet.members import Member, group_of
from prunecast.fleet.options import Options
from prunecast.fleet.outcomes import Closing, Outcome, apart
from prunecast.fleet.runner import Runner
from prunecast.fleet.shapes import Shape, places, split
from prunecast.fleet.train import Ends, Spoilt, diverged, train_level
from prunecast.fleet.yard import Yard


class Trainer:
    """Trains levels; its methods may be called from any thread.

    Only a store that cannot be written is raised: everything else that goes wrong with a level has a next step, and
    that is handed back.
    """

    def __init__(self, yard: Yard, ahead: Executor, options: Options) -> None:
        """Examples of the next epochs are drawn by `ahead`."""
        self._yard, self._ahead, self._options = yard, ahead, options
        self._stop = threading.Event()
        self._lones: dict[int, Lone] = {}

    def stop(self) -> None:
        """Let every level store where it stands as soon as it can, and begin no other."""
        self._stop.set()

    def pack(self, members: list[Member], shape: Shape) -> Outcome:
        """Train one level of a pack; where it fails its members train again, in another way or in halves."""
        kind, runner = group_of(members[0]).kind, None
        try:
            if self._stop.is_set():
                return Outcome()
            with self._yard.runner(kind, shape, members[0].chain) as runner:
                end = self._level(runner, members, shape)
        except Stopped:
            return Outcome()
        except StoreError:
            raise
        except torch.OutOfMemoryError as failure:
            self._yard.shrink(kind, shape)
            return apart(members, failure)
        except Exception as failure:
            if self._yard.give_up(kind, shape, runner, failure):
                return Outcome(apart=[members])
            return apart(members, failure)
        if isinstance(end, Ends):
            return _to_be_closed(members, end)
        if len(members) > 1:
            return Outcome(apart=split(members, end.suspects))
        last = diverged(end, members[0], kind.device)
        return Outcome(trained=[Closing(member=members[0], end=last)])

    def _level(self, runner: Runner, members: list[Member], shape: Shape) -> Ends | Spoilt:
        seconds = self._options.checkpoint_seconds
        with self._yard.meter.doing("training"):
            return train_level(
                runner, members, places(shape, members), self._ahead, self._stop, checkpoint_seconds=seconds
            )

    def alone(self, member: Member) -> Outcome:
        """Train one level of a chain that cannot be packed; where it fails, the plain loop tries once more."""
        try:
            if self._stop.is_set():
                return Outcome()
            if member.number not in self._lones:
                self._lones[member.number] = lone(member.chain)
            with self._yard.meter.doing("training"):
                end = self._lones[member.number].train(member.level, self._stop)
            return Outcome(trained=[Closing(member=member, end=end)])
        except Stopped:
            return Outcome()
        except StoreError:
            raise
        except Exception as failure:
            return apart([member], failure)

    def forget(self, number: int) -> None:
        """Let go of the network of a chain that trained alone."""
        self._lones.pop(number, None)

    def clear(self) -> None:
        """Let go of all of them."""
        self._lones.clear()


def _to_be_closed(members: Sequence[Member], end: Ends) -> Outcome:
    rewinds: Sequence[Mapping[str, Tensor] | None] = end.rewinds or [None for _ in members]
    own = zip(members, end.trained, rewinds, strict=True)
    return Outcome(trained=[Closing(member=who, end=last, rewind=point) for who, last, point in own])

"""What is known about one trained network, and why a chain ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "diverged"]


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The masks of a level, counted."""

    nonzero: int
    """Surviving weights."""
    alive: int | None
    """Those of them with a path through them; None where the network is not understood."""
    connected: bool | None
    """Whether any path is left; None where the network is not understood."""
    note: str = ""
    """Why the network is not understood."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trained network: a level of a chain."""

    level: int
    density: float
    """Kept over prunable weights, as counted."""
    error: float
    """The test error after the last step; the chance error where the training diverged."""
    loss: float | None
    """The test cross-entropy; None where the training diverged."""
    train_error: float | None
    """The error on the subsample, without augmentation."""
    validation_error: float | None
    """The error on the held-out examples of a recipe that has some."""
    parameters: int
    """All parameters of the unpruned network."""
    weights: int
    """The prunable ones."""
    nonzero: int
    """The prunable ones kept."""
    effective_density: float | None
    """Weights with a path through them over prunable weights; None where the network is not understood."""
    steps: int
    """Steps of this training; where it diverged, those up to where that was noticed."""
    seconds: float
    """Time of this training and its evaluation, over all interruptions."""
    status: Status
    """`diverged` where the loss or a weight stopped being a finite number."""
    chance_error: float
    """The error of the best constant answer."""
    device: str
    code: str
    """The version of the engine that trained this level."""
    note: str = ""
    """Why effective_density is not known."""
    following: Pruned | None = None
    """The masks of the next level; None where there is none because the training diverged."""


@dataclass(frozen=True, kw_only=True)
class StopRules:
    """When a chain ends; they change where it stops, not its numbers."""

    level_cap: int = 40
    """The last level."""
    disconnected: bool = True
    """Stop before a level without any path from input to output."""
    at_chance: int = 3
    """Stop after so many levels in a row at chance; 0 means never."""


def at_chance(record: Record) -> bool:
    """Whether a network is no better than the best constant answer."""
    return record.error >= record.chance_error - 1e-9


def why_ended(records: Sequence[Record], rules: StopRules) -> str:
    """Why a chain with these finished levels goes no further, in a word; empty while it goes on."""
    if not records:
        return ""
    following = records[-1].following
    if following is None:
        return "diverged"
    if following.nonzero == 0 or (rules.disconnected and following.connected is False):
        return "disconnected"
    if (
        rules.at_chance
        and len(records) >= rules.at_chance
        and all(map(at_chance, records[-rules.at_chance :]))
    ):
        return "at chance"
    return "level cap" if records[-1].level >= rules.level_cap else ""


def finite(value: float) -> float | None:
    """A number for JSON, None where it is not finite."""
    return value if math.isfinite(value) else None


def within(records: Sequence[Record], rules: StopRules) -> list[Record]:
    """The levels that a chain under these rules has, of all that are stored."""
    for count in range(1, len(records)):
        if why_ended(records[:count], rules):
            return list(records[:count])
    return list(records)

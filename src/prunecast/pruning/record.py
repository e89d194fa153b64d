"""The record of one trained network, and when a chain ends."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "diverged"]


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """The sizes of a level's masks."""

    nonzero: int
    """Weights kept."""
    alive: int | None
    """Kept weights on a path from input to output; None if the network has an unknown operation."""
    connected: bool | None
    """Whether any path is left; None if the network has an unknown operation."""
    note: str = ""
    """The unknown operation."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trained network: a level of a chain."""

    level: int
    density: float
    """Weights kept divided by prunable weights, as counted in the masks."""
    error: float
    """The test error after the last step; the chance error if the training diverged."""
    loss: float | None
    """The test cross-entropy; None if the training diverged."""
    train_error: float | None
    """The error on the subsample, without augmentation."""
    validation_error: float | None
    """The error on the held-out examples, if the recipe has some."""
    parameters: int
    """All parameters of the unpruned network."""
    weights: int
    """All prunable weights."""
    nonzero: int
    """Prunable weights kept."""
    effective_density: float | None
    """Weights on a path divided by prunable weights; None if the network has an unknown operation."""
    steps: int
    """Steps of this training; where it diverged, those up to where that was noticed."""
    seconds: float
    """Time of this training run and its evaluation, summed over restarts."""
    status: Status
    """`diverged` if the loss or a weight stopped being a finite number."""
    chance_error: float
    """The error of the best constant prediction."""
    device: str
    code: str
    """The version of the engine that trained this level."""
    note: str = ""
    """Why effective_density is unknown."""
    following: Pruned | None = None
    """The sizes of the next level; None if the training diverged, which ends the chain."""


@dataclass(frozen=True, kw_only=True)
class StopRules:
    """When a chain ends. They do not change its numbers."""

    level_cap: int = 40
    """The last level."""
    disconnected: bool = True
    """Stop before a level that has no path from input to output."""
    at_chance: int = 3
    """Stop after this number of levels in a row at chance; 0 means never."""


def at_chance(record: Record) -> bool:
    """Whether a network is no better than the best constant prediction."""
    return record.error >= record.chance_error - 1e-9


def why_ended(records: Sequence[Record], rules: StopRules) -> str:
    """Why a chain with these finished levels has ended, in a word; empty if it has not."""
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
    """The stored levels that a chain has under these rules."""
    for count in range(1, len(records)):
        if why_ended(records[:count], rules):
            return list(records[:count])
    return list(records)

"""The record of one trained network, and when a chain ends."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from prunecast.families import NotPrunable
from prunecast.pruning.files import is_finite, is_whole

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
    exhausted: bool = False
    """Whether nothing more can be removed: every group of channels is down to its last one, or the level before was the
    last one of a structure N:M."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """One trained network: a level of a chain."""

    level: int
    density: float
    """Weights kept divided by prunable weights, as counted in the masks."""
    error: float
    """The test error after the last step; the chance error if the training run diverged."""
    loss: float | None
    """The test cross-entropy; None if the training run diverged."""
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
    """Steps of this training run; if it diverged, those until that was noticed."""
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
    dead_layers: tuple[str, ...] | None = None
    """Prunable tensors without a weight left; None in records of older versions, which did not look for them."""
    not_prunable: tuple[NotPrunable, ...] | None = None
    """Tensors other than vectors that are never pruned; None in records of older versions, which did not list them."""
    remaining_parameters: int | None = None
    """All parameters but those that were removed; None in records of older versions, which did not count them."""
    bytes: int | None = None
    """What the network's file holds as dense tensors, without removed channels but with pruned single weights."""
    multiply_adds: int | None = None
    """Per image, without removed channels but with pruned single weights; None where they cannot be counted."""
    following: Pruned | None = None
    """The sizes of the next level; None if the training run diverged, which ends the chain."""

    @property
    def selection_error(self) -> float:
        """The error that networks are chosen by: the validation error if the recipe holds out examples."""
        return self.error if self.validation_error is None else self.validation_error


def records_from(levels: object) -> list[Record]:
    """Check the plain values of a file and turn them into records; a ValueError says what is wrong."""
    if not isinstance(levels, list):
        raise ValueError("it has no list of levels")
    records = [_record(values, level) for level, values in enumerate(levels)]
    for before, after in itertools.pairwise(records):
        if before.following is None or before.following.nonzero != after.nonzero:
            raise ValueError(f"level {after.level} does not follow from level {before.level}")
    return records


def _record(values: object, level: int) -> Record:
    if not isinstance(values, dict):
        raise ValueError(f"level {level} is not an object")
    following, dead, kept = (values.get(name) for name in ("following", "dead_layers", "not_prunable"))
    try:
        pruned = None if following is None else Pruned(**following)
        layers = None if dead is None else tuple(dead)
        never = None if kept is None else tuple(NotPrunable(**tensor) for tensor in kept)
        record = Record(**{**values, "following": pruned, "dead_layers": layers, "not_prunable": never})
    except TypeError as failure:
        raise ValueError(f"the record of level {level} lacks a field, or has an unknown one") from failure
    for field, good in _checks(record, level).items():
        if not good:
            raise ValueError(f"the record of level {level} has no valid {field}")
    return record


def _checks(record: Record, level: int) -> dict[str, bool]:
    """For each field, whether its value is possible."""
    shares = ("error", "chance_error", "density")
    unsure = ("train_error", "validation_error", "effective_density")
    checks = {name: is_finite(getattr(record, name), 0, 1) for name in shares}
    checks |= {name: _unknown_or(getattr(record, name), is_finite, 0, 1) for name in unsure}
    checks |= {name: is_whole(getattr(record, name)) for name in ("parameters", "nonzero", "steps")}
    checks |= {name: isinstance(getattr(record, name), str) for name in ("device", "code", "note")}
    sizes = ("remaining_parameters", "bytes", "multiply_adds")
    checks |= {name: _unknown_or(getattr(record, name), is_whole) for name in sizes}
    checks["level"] = is_whole(record.level) and record.level == level
    checks["loss"] = _unknown_or(record.loss, is_finite)
    checks["weights"] = is_whole(record.weights, 1)
    checks["seconds"] = is_finite(record.seconds, 0)
    checks["dead_layers"] = all(isinstance(name, str) for name in record.dead_layers or ())
    checks["not_prunable"] = all(
        isinstance(tensor.name, str) and is_whole(tensor.parameters) for tensor in record.not_prunable or ()
    )
    checks["status"] = record.status in ("ok", "diverged")
    if all(checks.values()):
        checks["density"] = math.isclose(record.density, record.nonzero / record.weights, rel_tol=1e-9)
    if all(checks.values()) and record.following is not None:
        checks["following"] = _is_pruned(record.following, record.weights)
    return checks


def _unknown_or(value: object, good: Callable[..., bool], *limits: float) -> bool:
    return value is None or good(value, *limits)


def _is_pruned(sizes: Pruned, weights: int) -> bool:
    return (
        is_whole(sizes.nonzero)
        and sizes.nonzero <= weights
        and _unknown_or(sizes.alive, is_whole)
        and (sizes.connected is None or isinstance(sizes.connected, bool))
        and isinstance(sizes.note, str)
        and isinstance(sizes.exhausted, bool)
    )


@dataclass(frozen=True, kw_only=True)
class StopRules:
    """When a chain ends. They do not change its numbers."""

    level_cap: int = 40
    """The last level."""
    disconnected: bool = True
    """Stop before a level that has no path from input to output."""
    at_chance: int = 3
    """Stop after this number of levels in a row at chance; 0 means never."""
    final_nonzero: int | None = None
    """Stop after the first level with this number of weights or fewer."""
    until_error: float | None = None
    """Stop after a level with a larger error than this; None means never."""
    until_loss: float | None = None
    """Stop after a level with a larger test loss than this; None means never."""


LEVEL_CAP, ERROR_REACHED = "level cap", "error reached"
"""The reasons after which a chain can continue under other rules."""


def at_chance(record: Record) -> bool:
    """Whether a network is no better than the best constant prediction."""
    return record.error >= record.chance_error - 1e-9


def why_ended(records: Sequence[Record], rules: StopRules) -> str:
    """Why a chain with these finished levels has ended, in a few words; empty if it has not."""
    if not records:
        return ""
    following = records[-1].following
    if following is None:
        return "diverged"
    if rules.final_nonzero is not None and records[-1].nonzero <= rules.final_nonzero:
        return LEVEL_CAP
    if following.nonzero == 0 or (rules.disconnected and following.connected is False):
        return "disconnected"
    if following.exhausted:
        return "nothing left to remove"
    if (
        rules.at_chance
        and len(records) >= rules.at_chance
        and all(map(at_chance, records[-rules.at_chance :]))
    ):
        return "at chance"
    if records[-1].level >= rules.level_cap:
        return LEVEL_CAP
    error, loss = records[-1].selection_error, records[-1].loss
    too_high = rules.until_error is not None and error > rules.until_error
    too_high |= rules.until_loss is not None and loss is not None and loss > rules.until_loss
    return ERROR_REACHED if too_high else ""


def finite(value: float) -> float | None:
    """A number for JSON, None where it is not finite."""
    return value if math.isfinite(value) else None


def within(records: Sequence[Record], rules: StopRules) -> list[Record]:
    """The stored levels up to the one after which these rules end the chain."""
    for count in range(1, len(records)):
        if why_ended(records[:count], rules):
            return list(records[:count])
    return list(records)

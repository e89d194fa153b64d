"""What the data cannot tell, in words a person can act on and as fields."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.laws.eq2 import GAMMA, HIGH, PHI, PSI, SCALE
from prunecast.laws.points import Floats, Points
from prunecast.laws.words import SYMBOLS

NEAR_PLATEAU = 0.85
"""Rows above this share of chance count as the high plateau."""
PLATEAU_ROWS, WINDOW = 3, 5
RISE, POWER_LAW_ROWS = 1.5, 4
"""The power-law region counts as seen with this many rows above this multiple of ε_np."""
SEEN_RISE = 3.0
"""Levels are asked for until a curve passes this multiple of its ε_np."""
WIDE_RATIO, WIDE_EXPONENT = 4.0, 1.5
"""An interval wider than this (ratio of its ends, for φ and ψ their difference) tells nothing to act on."""
PRUNED_A_LEVEL = 0.8


@dataclass(frozen=True, kw_only=True)
class Note:
    """One thing to know about a fit."""

    kind: str
    """undetermined, weak, bound, flat, dip, miss, few, chance, table"""
    text: str
    parameter: str | None = None
    more_levels: int | None = None


def plateau_reached(points: Points, chance: float | None) -> bool:
    """Whether the measured curves come near their high plateau.

    With a known chance error some rows must come near it. Without one, curves must visibly flatten: a dip can
    make a truncated curve look as if its fitted plateau were certain, so the fit itself is no witness.
    """
    if chance is not None:
        return int((points.error >= NEAR_PLATEAU * chance).sum()) >= PLATEAU_ROWS
    flat = [_flattens(points, index) for index in range(points.configurations)]
    return sum(flat) >= min(2, points.configurations)


def _flattens(points: Points, index: int) -> bool:
    """Whether the last levels of a curve, means over replicates, rise less than half as steeply as its steepest."""
    rows = points.configuration == index
    _, level = np.unique(points.level[rows], return_inverse=True)
    density, heights = (
        np.bincount(level, values[rows]) / np.bincount(level) for values in (points.density, points.log_error)
    )
    order = np.argsort(-density)
    steps, heights = -np.log(density[order]), heights[order]
    if len(heights) <= 2 * WINDOW or heights[-1] - heights.min() < np.log(2):
        return False
    slopes = (heights[WINDOW:] - heights[:-WINDOW]) / (steps[WINDOW:] - steps[:-WINDOW])
    return bool(slopes[-1] < slopes.max() / 2)


def levels_to(target: float, top: float, gamma: float) -> int:
    """Levels of 20% each until a curve that is at `top` reaches a target, if it goes on rising as d^−γ."""
    return max(1, int(np.ceil(np.log(max(target / top, 1.0)) / (-gamma * np.log(PRUNED_A_LEVEL)))))


def power_law_seen(points: Points) -> bool:
    """Whether enough rows have left the low plateau to show a slope."""
    return int((points.error > RISE * points.unpruned[points.configuration]).sum()) >= POWER_LAW_ROWS


def undetermined(
    values: dict[str, float],
    intervals: dict[str, tuple[float, float]],
    points: Points,
    chance: float | None,
    free: set[str],
) -> Iterator[Note]:
    """The parameters that the data do not determine, each with its remedy."""
    gamma = values[GAMMA] if 0.2 < values[GAMMA] < 2 else 0.6
    top = float(points.error.max())
    high_known = HIGH not in free or plateau_reached(points, chance)
    if not high_known:
        ceiling = chance if chance is not None else min(1.0, 1.5 * top)
        more = levels_to(0.95 * ceiling, top, gamma)
        remedy = " or fix it with --high-error chance" if chance is not None else ""
        yield Note(
            kind="undetermined",
            parameter=HIGH,
            more_levels=more,
            text=f"ε↑ is not determined: no curve nears its high plateau, the error never passes {top:.2g}; "
            f"prune {_levels(more)}{remedy}.",
        )
    if not power_law_seen(points):
        rise = float((points.error / points.unpruned[points.configuration]).max())
        more = levels_to(SEEN_RISE, rise, gamma)
        yield Note(
            kind="undetermined",
            parameter=GAMMA,
            more_levels=more,
            text=f"γ is not determined: the error never passes {top:.2g}; prune {_levels(more)}.",
        )
    elif GAMMA in free and _wide(intervals[GAMMA]):
        yield _too_wide(GAMMA, intervals, "prune further, so that more rows lie between the two plateaus")
    if SCALE in free and (not high_known or _wide(intervals[SCALE], WIDE_RATIO**2)):
        reason = (
            "because ε↑ is not; only p′·ε↑^(1/γ) is known" if not high_known else _range(intervals[SCALE])
        )
        yield Note(kind="undetermined", parameter=SCALE, text=f"p′ is not determined {reason}.")
    for name, axis in ((PHI, "depth"), (PSI, "width")):
        if name in free:
            yield from _exponent(name, axis, intervals[name], getattr(points, axis))


def _exponent(name: str, axis: str, interval: tuple[float, float], sizes: Floats) -> Iterator[Note]:
    several = len(np.unique(sizes))
    if interval[1] - interval[0] > WIDE_EXPONENT:
        text = f"{SYMBOLS[name]} is not determined {_range(interval)}; train more {axis}s."
        yield Note(kind="undetermined", parameter=name, text=text)
    elif several == 2:
        text = f"{SYMBOLS[name]} rests on two {axis}s only, so nothing tests it; train a third."
        yield Note(kind="weak", parameter=name, text=text)


def _levels(more: int) -> str:
    return f"{more} more level{'s' if more > 1 else ''}"


def _range(interval: tuple[float, float]) -> str:
    return f"(it may be anything from {interval[0]:.2g} to {interval[1]:.2g})"


def _wide(interval: tuple[float, float], ratio: float = WIDE_RATIO) -> bool:
    return not interval[1] < ratio * interval[0]


def _too_wide(name: str, intervals: dict[str, tuple[float, float]], remedy: str) -> Note:
    text = f"{SYMBOLS[name]} is not determined {_range(intervals[name])}; {remedy}."
    return Note(kind="undetermined", parameter=name, text=text)

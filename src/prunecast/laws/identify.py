"""What the data cannot tell, in words a person can act on and as fields."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prunecast.laws.eq2 import GAMMA, HIGH, PHI, PSI, SCALE
from prunecast.laws.judge import LOW_EDGE
from prunecast.laws.points import Floats, Points
from prunecast.laws.words import SYMBOLS
from prunecast.text import plural

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
FINER = "prune in smaller steps (a smaller `fraction`)"
"""What helps where curves have been pruned to their end and still show too little between the plateaus."""


LIMITS = ("dip", "dip_ratio")
"""Parameters with a bound that means something: no dip, or one that is alike everywhere. They can be known there."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """One thing to know about a fit."""

    kind: str
    """undetermined, weak, bound, flat, outside, dip, oversized, miss, few, chance, preference"""
    text: str
    parameter: str | None = None
    """what it is about; an undetermined one without a parameter is about the whole rise of the law"""
    more_levels: int | None = None


def unknown(notes: Sequence[Note], free: Iterable[str]) -> set[str]:
    """Those of the free parameters that notes call undetermined, be it because their search ends at a bound.

    A note without a parameter is about the law's whole rise.
    """
    plain = {note.parameter for note in notes if note.kind == "undetermined"}
    bound = {note.parameter for note in notes if note.kind == "bound"}
    return {
        name for name in free if name in plain or (name not in LIMITS and (name in bound or None in plain))
    }


def rises(points: Points, law: str) -> bool:
    """Whether any curve leaves its low plateau; that of the law `dip` sinks, so there the lowest error counts."""
    unpruned = points.unpruned
    if law == "dip":
        unpruned = np.minimum(unpruned, np.minimum.reduceat(points.error, points.starts))
    return bool((points.error > LOW_EDGE * unpruned[points.configuration]).any())


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
    ended: int = 0,
) -> Iterator[Note]:
    """The parameters that the data do not determine, each with its remedy; `ended` curves go on to chance."""
    gamma = values[GAMMA] if 0.2 < values[GAMMA] < 2 else 0.6
    high_known = HIGH not in free or plateau_reached(points, chance)
    if not high_known:
        yield _plateau_missed(points, chance, gamma, ended)
    if not power_law_seen(points):
        yield _rise_missed(points, gamma, ended)
    elif GAMMA in free and _wide(intervals[GAMMA]):
        how = FINER if high_known or ended else "prune further"
        span = _range(reaching(intervals[GAMMA], values[GAMMA]))
        text = f"γ is not determined {span}; {how}, so that more rows lie between the two plateaus."
        yield Note(kind="undetermined", parameter=GAMMA, text=text)
    if SCALE in free and (not high_known or _wide(intervals[SCALE], WIDE_RATIO**2)):
        span = _range(reaching(intervals[SCALE], values[SCALE]))
        reason = span if high_known else "because ε↑ is not; only p′·ε↑^(1/γ) is known"
        yield Note(kind="undetermined", parameter=SCALE, text=f"p′ is not determined {reason}.")
    for name, axis in ((PHI, "depth"), (PSI, "width")):
        if name in free:
            yield from _exponent(name, axis, intervals[name], values[name], getattr(points, axis))


def _exponent(
    name: str, axis: str, interval: tuple[float, float], value: float, sizes: Floats
) -> Iterator[Note]:
    several = len(np.unique(sizes))
    if interval[1] - interval[0] > WIDE_EXPONENT:
        text = f"{SYMBOLS[name]} is not determined {_range(reaching(interval, value))}; train more {axis}s."
        yield Note(kind="undetermined", parameter=name, text=text)
    elif several == 2:
        text = f"{SYMBOLS[name]} rests on two {axis}s only, so nothing tests it; train a third."
        yield Note(kind="weak", parameter=name, text=text)


def no_rise(points: Points, free: Iterable[str], ended: int) -> Note:
    """All curves lie flat, or fall: they say nothing of how the error rises."""
    symbols = ", ".join(SYMBOLS[name] for name in free if name not in LIMITS)
    more = levels_to(SEEN_RISE, 1.0, 0.6)
    seen = f"No curve rises above its unpruned error (by more than {LOW_EDGE - 1:.0%})"
    if ended:
        seen += (
            " before it reaches chance"
            if points.configurations == ended
            else f", though {ended} reach chance"
        )
    words = f"{seen}, so the data do not tell the law's rise: {symbols} are not determined"
    return _missing(None, words, more, points.configurations - ended, ended)


def _plateau_missed(points: Points, chance: float | None, gamma: float, ended: int) -> Note:
    top = float(points.error.max())
    more = levels_to(0.95 * (chance if chance is not None else min(1.0, 1.5 * top)), top, gamma)
    seen = f"no curve nears its high plateau, the error never passes {top:.2g}"
    if ended and chance is not None:
        near = int((points.error >= NEAR_PLATEAU * chance).sum())
        seen = _too_steep(points, near, "near the high plateau", ended)
    remedy = " or fix it with --high-error chance" if chance is not None else ""
    return _missing(HIGH, f"ε↑ is not determined: {seen}", more, points.configurations - ended, ended, remedy)


def _rise_missed(points: Points, gamma: float, ended: int) -> Note:
    top, unpruned = float(points.error.max()), points.unpruned[points.configuration]
    more = levels_to(SEEN_RISE, float((points.error / unpruned).max()), gamma)
    seen = f"the error never passes {top:.2g}"
    if ended:
        seen = _too_steep(points, int((points.error > RISE * unpruned).sum()), "on the rise", ended)
    return _missing(GAMMA, f"γ is not determined: {seen}", more, points.configurations - ended, ended)


def _too_steep(points: Points, rows: int, place: str, ended: int) -> str:
    """Curves that reach chance have been pruned to their end, so that more levels would show nothing."""
    of_all = f"{ended} of {points.configurations} curves" if points.configurations > 1 else "the curve"
    reach, they = ("reaches", "it rises") if ended == 1 else ("reach", "they rise")
    seen = f"{plural(rows, 'row', 'lies', 'lie')} {place}, though {of_all} {reach} chance"
    return f"{seen}: {they} too steeply for these levels"


def _missing(parameter: str | None, words: str, more: int, going: int, ended: int, remedy: str = "") -> Note:
    """A note that asks for more levels of the curves that can have them, and for smaller steps of the others."""
    further = f"prune {'the others ' * bool(ended)}{more} more level{'s' * (more > 1)}"
    how = " or ".join([*([further] if going else []), *([FINER] if ended else [])])
    return Note(
        kind="undetermined",
        parameter=parameter,
        more_levels=more if going else None,
        text=f"{words}; {how}{remedy}.",
    )


def reaching(interval: tuple[float, float], value: float) -> tuple[float, float]:
    """The interval of an undetermined parameter is what remains possible, which the estimate is."""
    return min(interval[0], value), max(interval[1], value)


def _range(interval: tuple[float, float]) -> str:
    return f"(it may be anything from {interval[0]:.2g} to {interval[1]:.2g})"


def _wide(interval: tuple[float, float], ratio: float = WIDE_RATIO) -> bool:
    return not interval[1] < ratio * interval[0]

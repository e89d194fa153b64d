"""The paper's selection rule: networks beyond the point where growing the unpruned one hurts are too large.

On a line of networks that differ in depth alone, or in width alone, the first network is looked for whose
unpruned error lies above the lowest one before it by more than the replicates' noise. It and all that are
still deeper (or wider) on that line are too large for their data. Errors are means over replicates; the noise of the
difference of two means over R and S replicates is σ √(1/R + 1/S) of the lower one, where σ is the relative
standard deviation of replicates around their own mean, pooled over the configurations that have several.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

TOLERANCE = 2.0
"""Standard errors by which a larger network may be worse before it counts as worse."""


@dataclass(frozen=True, kw_only=True)
class Unpruned:
    """The unpruned error of one configuration, on the data that it shares with those it is compared with."""

    depth: float
    width: float
    error: float
    """The mean over replicates."""
    replicates: float = 1


def pooled_noise(replicates: Iterable[Sequence[float]]) -> float | None:
    """The relative standard deviation σ of replicates around their mean; None where nothing is replicated."""
    several = [errors for errors in replicates if len(errors) > 1 and fmean(errors) > 0]
    squares = sum((error / fmean(errors) - 1) ** 2 for errors in several for error in errors)
    freedom = sum(len(errors) - 1 for errors in several)
    return math.sqrt(squares / freedom) if freedom else None


def too_large(
    configurations: Iterable[Unpruned], noise: float, tolerance: float = TOLERANCE
) -> dict[tuple[float, float], str]:
    """The depths and widths that are too large, with the reason."""
    reasons: dict[tuple[float, float], str] = {}
    known = list(configurations)
    for axis, other, word in (("width", "depth", "wider"), ("depth", "width", "deeper")):
        by_line = sorted(known, key=lambda own: (getattr(own, other), getattr(own, axis)))
        for _, members in itertools.groupby(by_line, key=lambda own: getattr(own, other)):
            for own, reason in _beyond(list(members), axis, word, tolerance * noise):
                reasons.setdefault((own.depth, own.width), reason)
    return reasons


def _beyond(
    line: Sequence[Unpruned], axis: str, word: str, tolerance: float
) -> Iterator[tuple[Unpruned, str]]:
    """The networks of one line from the first on that is worse than the best one before it."""
    best, reason = line[0], ""
    for own in line[1:]:
        spread = tolerance * best.error * math.sqrt(1 / own.replicates + 1 / best.replicates)
        if not reason and own.error > best.error + spread:
            reason = (
                f"{word} than {axis} {getattr(best, axis):g} raises the unpruned error: {best.error:.4f} there, "
                f"{own.error:.4f} at {axis} {getattr(own, axis):g} (tolerance {spread:.4f})"
            )
        if reason:
            yield own, reason
        elif own.error < best.error:
            best = own

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

import numpy as np
import numpy.typing as npt

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


def pooled_noise(errors: npt.ArrayLike, groups: npt.ArrayLike) -> float | None:
    """√(Σ (ε/mean − 1)² / Σ (R − 1)), the relative deviation σ of replicates around the mean of their group.

    Groups are numbered from 0; None where none has two replicates, or where all of their errors are zero.
    """
    values, group = np.asarray(errors, dtype=float), np.asarray(groups)
    count = np.bincount(group)
    mean = np.bincount(group, weights=values) / np.maximum(count, 1)
    counts = mean[group] > 0
    squares = float(((values[counts] / mean[group][counts] - 1) ** 2).sum())
    freedom = int((count[mean > 0] - 1).sum())
    return math.sqrt(squares / freedom) if freedom > 0 else None


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

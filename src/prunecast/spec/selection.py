"""The paper's rule for networks that are too large for their data.

Networks that differ only in depth, or only in width, form a line. On each line, the rule finds the first network whose
unpruned error exceeds the lowest error before it by more than the noise of replicates. That network and all deeper (or
wider) ones on the line are too large for their data. Errors are means over replicates. The noise of the difference of
two means over R and S replicates is σ √(1/R + 1/S) times the lower mean, where σ is the relative standard deviation of
replicates around their mean, pooled over the configurations that have several.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import numpy.typing as npt

from prunecast.spec.chain import ChainSpec

TOLERANCE = 2.0
"""A larger network counts as worse if its error is higher by more than this many standard errors."""


@dataclass(frozen=True, kw_only=True)
class Unpruned:
    """The unpruned error of one configuration."""

    depth: float
    width: float
    error: float
    """The mean over replicates."""
    replicates: float = 1


@dataclass(frozen=True, kw_only=True)
class ErrorRise:
    """Why a network is too large: along one axis, the unpruned error rose before its size was reached."""

    axis: str
    """What grows along the line: depth or width."""
    best: float
    """The size with the lowest error before the rise."""
    best_error: float
    size: float
    """The first size whose error is clearly larger."""
    error: float
    tolerance: float
    """The rise that noise could explain."""


def pooled_noise(errors: npt.ArrayLike, groups: npt.ArrayLike) -> float | None:
    """√(Σ (ε/mean − 1)² / Σ (R − 1)), the relative standard deviation σ of replicates around their group's mean.

    Groups are numbered from 0. None if no group has two replicates, or if all of their errors are zero.
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
) -> dict[tuple[float, float], ErrorRise]:
    """The depths and widths that are too large, with the reason."""
    reasons: dict[tuple[float, float], ErrorRise] = {}
    known = list(configurations)
    for axis, other in (("width", "depth"), ("depth", "width")):
        by_line = sorted(known, key=lambda own: (getattr(own, other), getattr(own, axis)))
        for _, members in itertools.groupby(by_line, key=lambda own: getattr(own, other)):
            for own, reason in _after_the_rise(list(members), axis, tolerance * noise):
                reasons.setdefault((own.depth, own.width), reason)
    return reasons


def _after_the_rise(
    line: Sequence[Unpruned], axis: str, tolerance: float
) -> Iterator[tuple[Unpruned, ErrorRise]]:
    """The networks of one line, starting with the first one that is worse than the best before it."""
    best, reason = line[0], None
    for own in line[1:]:
        spread = tolerance * best.error * math.sqrt(1 / own.replicates + 1 / best.replicates)
        if reason is None and own.error > best.error + spread:
            reason = ErrorRise(
                axis=axis,
                best=getattr(best, axis),
                best_error=best.error,
                size=getattr(own, axis),
                error=own.error,
                tolerance=spread,
            )
        if reason is not None:
            yield own, reason
        elif own.error < best.error:
            best = own


@dataclass(frozen=True, kw_only=True)
class Select:
    """Settings of the selection rule."""

    tolerance: float = TOLERANCE
    """A larger network counts as worse if its error is higher by more than this many standard errors."""
    noise: float | None = None
    """Relative standard deviation of replicates; None takes it from the plan's own replicates."""


def left_out(rule: Select, errors: Mapping[ChainSpec, float]) -> dict[ChainSpec, ErrorRise]:
    """The chains that the rule leaves out, with the reason; `errors` are the unpruned errors by chain.

    Networks are compared only if they differ in nothing but depth and width.
    """
    alike: dict[tuple[object, ...], dict[tuple[int, float], list[float]]] = {}
    for spec in sorted(errors, key=lambda spec: (spec.depth, spec.width)):
        replicates = alike.setdefault(_comparable(spec), {})
        replicates.setdefault((spec.depth, spec.width), []).append(errors[spec])
    reasons = {key: _too_large_sizes(rule, replicates) for key, replicates in alike.items()}
    found = {spec: reasons[_comparable(spec)].get((spec.depth, spec.width)) for spec in errors}
    return {spec: reason for spec, reason in found.items() if reason is not None}


def _comparable(spec: ChainSpec) -> tuple[object, ...]:
    return (
        *(spec.family, spec.dataset, spec.loader, spec.image_size, spec.num_examples, spec.threads),
        *(spec.test_share, spec.split_seed),
        *(spec.recipe, spec.method, spec.start_trained),
    )


def _too_large_sizes(
    rule: Select, replicates: Mapping[tuple[int, float], Sequence[float]]
) -> dict[tuple[float, float], ErrorRise]:
    """The depths and widths that are too large, given the errors of the replicates at each."""
    noise = rule.noise
    if noise is None:
        groups = np.repeat(np.arange(len(replicates)), list(map(len, replicates.values())))
        noise = pooled_noise(np.concatenate(list(replicates.values())), groups) or 0.0
    means = [
        Unpruned(depth=depth, width=width, error=fmean(own), replicates=len(own))
        for (depth, width), own in replicates.items()
    ]
    return too_large(means, noise, rule.tolerance)

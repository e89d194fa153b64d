"""From small to large: fit small networks or datasets alone, predict the rest (appendix F of the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.findings import Finding
from prunecast.laws import (
    AXES,
    Deviation,
    Floats,
    Mask,
    Points,
    deviation,
    measured,
    selectable_laws,
)
from prunecast.studies.findings import PaperSplitMissing, TooFewSizes
from prunecast.studies.refits import best_fit, deviations
from prunecast.table import Table

LEAST_SIZES = 3
PAPER = {"depth": (14.0, 20.0), "width": (1 / 8, 1 / 4)}
"""The sizes that the paper fits to predict all other depths and widths with the full dataset."""
PAPER_SPLIT, CORNERS = "paper", 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One law, fitted to small sizes along one axis and compared with large ones."""

    along: str
    """the axis, `networks` (the smaller of each of depth and width) or `paper`"""
    law: str
    fitted_sizes: dict[str, tuple[float, ...]]
    """the sizes fitted, for each axis that separates them from those predicted; the paper's own split also has its
    number of examples if the table has more"""
    fitted_configurations: int
    predicted_configurations: int
    fitted: Deviation
    predicted: Deviation


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """How each law predicts larger sizes than it was fitted to."""

    table: str
    steps: tuple[Step, ...]
    findings: tuple[Finding, ...]


def extrapolation(table: Table) -> Extrapolation:
    """Fit the smaller half of the sizes on each axis that has three or more, and predict the larger half."""
    points = measured(table).points
    splits = list(_splits(points))
    if not splits:
        raise PrunecastError(
            f"{table.source}: no axis has three sizes, so nothing larger is left to predict; "
            "train more widths or depths"
        )
    steps = tuple(_step(*split, law, points, table.metric) for split in splits for law in selectable_laws())
    return Extrapolation(table=table.source, steps=steps, findings=tuple(_findings(points, steps)))


def _findings(points: Points, steps: tuple[Step, ...]) -> Iterator[Finding]:
    for axis in AXES:
        sizes = len(np.unique(getattr(points, axis)))
        if sizes < LEAST_SIZES:
            yield TooFewSizes(axis=axis, sizes=sizes, needed=LEAST_SIZES)
    if all(step.along != PAPER_SPLIT for step in steps):
        yield PaperSplitMissing(depths=PAPER["depth"], widths=PAPER["width"])


def _splits(points: Points) -> Iterator[tuple[str, Mask, Mask]]:
    """Which configurations to fit and which to predict."""
    several = [axis for axis in AXES if len(np.unique(getattr(points, axis))) >= LEAST_SIZES]
    for axis in several:
        small = _small(getattr(points, axis))
        yield axis, small, ~small
    sizes = [axis for axis in several if axis != "num_examples"]
    if len(sizes) == 2:
        small = np.logical_and(*(_small(getattr(points, axis)) for axis in sizes))
        yield "networks", small, ~small
    published = paper_split(points)
    if published is not None:
        yield PAPER_SPLIT, *published


def paper_split(points: Points) -> tuple[Mask, Mask] | None:
    """The four configurations that the paper fits and those that it predicts, at the most examples that have both."""
    small = np.logical_and.reduce([np.isin(getattr(points, axis), PAPER[axis]) for axis in PAPER])
    for examples in np.unique(points.num_examples)[::-1]:
        there = points.num_examples == examples
        own, rest = there & small, there & ~small
        if own.sum() == CORNERS and rest.any():
            return own, rest
    return None


def _small(sizes: Floats) -> Mask:
    """The smaller half of an axis, and at least its two smallest sizes, which an exponent needs."""
    known = np.unique(sizes)
    return np.asarray(sizes <= known[max(1, (len(known) - 1) // 2)])


def _step(along: str, fit: Mask, rest: Mask, law: str, points: Points, metric: str) -> Step:
    fitted, predicted = points.of(np.flatnonzero(fit)), points.of(np.flatnonzero(rest))
    form, theta = best_fit(law, fitted, metric)
    return Step(
        along=along,
        law=law,
        fitted_sizes=_fitted_sizes(along, fitted, points),
        fitted_configurations=fitted.configurations,
        predicted_configurations=predicted.configurations,
        fitted=deviation(deviations(form, theta, fitted)),
        predicted=deviation(deviations(form, theta, predicted)),
    )


def _fitted_sizes(along: str, fitted: Points, points: Points) -> dict[str, tuple[float, ...]]:
    axes = [along] if along in AXES else ["depth", "width"]
    if along == PAPER_SPLIT and fitted.num_examples[0] < points.num_examples.max():
        axes.append("num_examples")
    return {axis: tuple(np.unique(getattr(fitted, axis)).tolist()) for axis in axes}

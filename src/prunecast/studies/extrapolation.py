"""From small to large: fit small networks or datasets alone, predict the rest (appendix F of the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.catalogue import LAWS
from prunecast.laws.judge import Deviation, deviation, relative
from prunecast.laws.measured import measured
from prunecast.laws.points import Floats, Mask, Points
from prunecast.studies.refits import best_fit
from prunecast.table import Table

AXES = ("depth", "width", "num_examples")
PAPER = {"depth": (14.0, 20.0), "width": (1 / 8, 1 / 4)}
"""What the paper fits to predict all other depths and widths with the full dataset."""
PAPER_SIZES, CORNERS = "the paper's sizes", 4


@dataclass(frozen=True, kw_only=True)
class Step:
    """One way from small to large under one law."""

    along: str
    """the axis, `networks` (the smaller of each of depth and width) or `paper`"""
    law: str
    fitted_on: str
    """the sizes fitted, in words"""
    fitted_configurations: int
    predicted_configurations: int
    fitted: Deviation
    predicted: Deviation


@dataclass(frozen=True, kw_only=True)
class Extrapolation:
    """How each law predicts larger sizes than it was fitted to."""

    table: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...]


def extrapolation(table: Table) -> Extrapolation:
    """Fit the smaller half of the sizes on each axis that has three or more, and predict the larger half."""
    points = measured(table).points
    splits = list(_splits(points))
    if not splits:
        raise PrunecastError(
            f"{table.source}: no axis has three sizes, so nothing larger is left to predict; "
            "train more widths or depths"
        )
    steps = [_step(*split, law, points, table.metric) for split in splits for law in LAWS]
    missing = [axis for axis in AXES if len(np.unique(getattr(points, axis))) < 3]
    notes = [
        f"{axis.replace('num_', 'number of ').capitalize()} has fewer than three sizes: nothing to show along it."
        for axis in missing
    ]
    if "paper" not in {step.along for step in steps}:
        notes.append("The paper's own split (widths 1/8 and 1/4, depths 14 and 20) is not in this table.")
    return Extrapolation(
        table=table.source, steps=tuple(s for s in steps if s is not None), notes=tuple(notes)
    )


def _splits(points: Points) -> Iterator[tuple[str, Mask, Mask]]:
    """Which configurations to fit and which to predict."""
    several = [axis for axis in AXES if len(np.unique(getattr(points, axis))) >= 3]
    for axis in several:
        small = _small(getattr(points, axis))
        yield axis, small, ~small
    sizes = [axis for axis in several if axis != "num_examples"]
    if len(sizes) == 2:
        small = np.logical_and(*(_small(getattr(points, axis)) for axis in sizes))
        yield "networks", small, ~small
    yield from islice(_paper(points), 1)


def _paper(points: Points) -> Iterator[tuple[str, Mask, Mask]]:
    """The paper's split at each number of examples that has it, the most first."""
    small = np.logical_and.reduce([np.isin(getattr(points, axis), PAPER[axis]) for axis in PAPER])
    for examples in np.unique(points.num_examples)[::-1]:
        there = points.num_examples == examples
        own, rest = there & small, there & ~small
        if own.sum() == CORNERS and rest.any():
            yield "paper", own, rest


def _small(sizes: Floats) -> Mask:
    """The smaller half of an axis, at least its two smallest sizes, without which no exponent can be fitted."""
    known = np.unique(sizes)
    return np.asarray(sizes <= known[max(1, (len(known) - 1) // 2)])


def _step(along: str, fit: Mask, rest: Mask, law: str, points: Points, metric: str) -> Step:
    fitted, predicted = points.of(np.flatnonzero(fit)), points.of(np.flatnonzero(rest))
    form, theta = best_fit(law, fitted, metric)

    def judged(rows: Points) -> Deviation:
        return deviation(relative(form.log_error(theta[None], rows)[0], rows))

    return Step(
        along=along,
        law=law,
        fitted_on=_words(along, fitted, points),
        fitted_configurations=fitted.configurations,
        predicted_configurations=predicted.configurations,
        fitted=judged(fitted),
        predicted=judged(predicted),
    )


def _words(along: str, fitted: Points, points: Points) -> str:
    if along == "paper":
        own = float(fitted.num_examples[0])
        return PAPER_SIZES if own == points.num_examples.max() else f"{PAPER_SIZES}, {own:,.0f} examples"
    axes = [along] if along in AXES else ["depth", "width"]
    sizes = {axis: ", ".join(f"{v:g}" for v in np.unique(getattr(fitted, axis))) for axis in axes}
    return "; ".join(
        f"{own} examples" if axis == "num_examples" else f"{axis} {own}" for axis, own in sizes.items()
    )

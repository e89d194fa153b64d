"""Whether the network that the law calls smallest is the smallest measured (section 7 of the paper).

At each error every measured configuration is pruned as far as its measured curve allows, and as far as the law says.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from prunecast.choice.counts import counter
from prunecast.choice.naming import Naming, naming
from prunecast.errors import PrunecastError
from prunecast.laws import Fit, fit
from prunecast.laws.points import Points
from prunecast.studies.curves import FewCurves, SingleCurves, few_curves, single_curves
from prunecast.studies.refits import subject
from prunecast.studies.smallest import ERRORS, Compared, Smallest, Start
from prunecast.table import Table

CLOSE = 0.25
NO_RECTANGLE = (
    "No set of curves that leave the low plateau spans the axes of the law at one number of examples."
)
ENOUGH = ERRORS // 2
"""A number of examples is judged where its curves cross so many of the errors, if any does."""


@dataclass(frozen=True, kw_only=True)
class Optimality:
    """The frontier at each error and the claims about it."""

    law: str
    table: str
    num_examples: float
    frontier: tuple[Smallest, ...]
    largest_miss: float
    """largest |predicted/measured − 1| of the smallest size (the paper: 25%)"""
    median_miss: float
    within_quarter: float
    """share of errors at which the two sizes agree within 25%"""
    largest_regret: float
    mean_regret: float
    lowest_rise_measured: float | None
    """least error/ε_np of a winner that has a larger network beside it; None where every winner is the largest"""
    lowest_rise_predicted: float | None
    start: Start
    single_curves: SingleCurves
    few_curves: FewCurves | None
    notes: tuple[str, ...]
    naming: Naming
    """the axes and the unit of size that the table tells"""


def optimality(
    table: Table, *, law: str = "eq2", num_examples: float | None = None, fitted: Fit | None = None
) -> Optimality:
    """Hold the law's smallest networks against the measured ones, for one number of examples.

    `fitted` is that law fitted to this table, by who has it already.
    """
    fitted, one = fitted or fit(table, law=law), subject(table, law)
    known = _compared(fitted, one.points)
    if not known:
        raise PrunecastError(
            f"{table.source}: no two configurations share a number of examples, which leaves nothing to choose; train "
            "more widths or depths"
        )
    examples = _usual(known) if num_examples is None else _asked(known, num_examples, table.source)
    compared = known[examples]
    if not len(compared.error):
        raise PrunecastError(
            f"{table.source}: no curve with {examples:g} examples crosses an error at which the law has a network "
            "too; prune further"
        )
    frontier = tuple(compared.smallest(fitted, row) for row in range(len(compared.error)))
    miss = np.array([abs(one.predicted_nonzero / one.measured_nonzero - 1) for one in frontier])
    regret = np.array([one.regret for one in frontier])
    few = few_curves(one, table.metric)
    return Optimality(
        law=law,
        table=table.source,
        num_examples=examples,
        frontier=frontier,
        largest_miss=float(miss.max()),
        median_miss=float(np.median(miss)),
        within_quarter=float((miss <= CLOSE).mean()),
        largest_regret=float(regret.max()),
        mean_regret=float(regret.mean()),
        lowest_rise_measured=compared.lowest_rise(compared.measured),
        lowest_rise_predicted=compared.lowest_rise(compared.predicted),
        start=compared.start(),
        single_curves=single_curves(table, one),
        few_curves=few,
        notes=(*_short(known, examples), *_notes(fitted, few)),
        naming=naming(fitted, counter(fitted)),
    )


def _compared(fitted: Fit, points: Points) -> dict[float, Compared]:
    """The comparison at each number of examples that has two configurations, the most examples first."""
    examples = np.array([c.num_examples for c in fitted.configurations])
    groups = {float(n): np.flatnonzero(examples == n) for n in np.unique(examples)[::-1]}
    return {n: Compared.of(points, fitted, group, n) for n, group in groups.items() if len(group) > 1}


def _asked(known: dict[float, Compared], num_examples: float, source: str) -> float:
    """The number of examples that was asked for, if it leaves a choice."""
    for examples in known:
        if np.isclose(examples, num_examples):
            return examples
    listed = ", ".join(f"{examples:g}" for examples in known)
    raise PrunecastError(
        f"{source}: fewer than two configurations with {num_examples:g} examples leave nothing to choose; "
        f"ask for {listed}"
    )


def _usual(known: dict[float, Compared]) -> float:
    """The largest number of examples whose curves go far enough down, else the one whose curves go furthest."""
    enough = (examples for examples, own in known.items() if len(own.error) >= ENOUGH)
    return next(enough, max(known, key=lambda examples: len(known[examples].error)))


def _short(known: dict[float, Compared], examples: float) -> Iterator[str]:
    """Which dataset sizes are not judged, and why."""
    crossed = {n: f"{len(own.error)} of {ERRORS} errors" for n, own in known.items()}
    if len(known[examples].error) < ENOUGH:
        yield (
            f"Curves with {examples:,.0f} examples cross {crossed[examples]} between the lowest and the high plateau: "
            "too few to judge by; prune further."
        )
    for more in (n for n in known if n > examples):
        yield (
            f"{more:,.0f} examples are measured too, but their curves cross {crossed[more]} only; "
            f"--where num_examples={more:g} judges them alone."
        )


def _notes(fitted: Fit, few: FewCurves | None) -> list[str]:
    notes = [
        f"{axis.capitalize()} does not vary in this table: its part of the choice cannot be shown."
        for axis in ("depth", "width")
        if axis not in fitted.axes
    ]
    return notes + ([] if few else [NO_RECTANGLE])

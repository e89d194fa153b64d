"""What to train next to find the smallest network for some errors soon, and whether enough was trained.

A decision depends only on what was trained so far, so it can be repeated after an interruption. A search starts with
the unpruned networks at the corners and in the middle of the grid. Next, it trains whole curves of such networks on few
examples, if the grid has them: they cost little and show the shape of the law. Then it trains the curve of the network
that is probably best for a target. From then on it fits a law and picks the chain that reduces the answer's uncertainty
most per second.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prunecast.choice import DEFAULT_CONFIDENCE, Choice, Measure
from prunecast.errors import PrunecastError
from prunecast.laws import AUTO, Fit, fit, fit_dense, measured
from prunecast.studies.outlook import Outlook, TargetState, answers_so_far
from prunecast.studies.search_grid import (
    FIRST_CURVES,
    Grid,
    GridChain,
    NextStep,
    Reason,
    law_chains,
    spread_out,
    unlikely,
    whole,
)
from prunecast.table import Table

STARTING = {Reason.START, Reason.LAW, Reason.FIRST_CURVE}
"""Reasons of steps that are taken before the law's uncertainty counts."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What to train next, best first, and what is known so far."""

    steps: tuple[NextStep, ...]
    """empty if nothing is left to train"""
    states: tuple[TargetState, ...]
    fit: Fit | None
    """None before there are enough rows; if no curve rises, the answers are trained networks"""

    def known_within(self, doubt: float) -> bool:
        """Whether the starting design is trained and every answer is known within this doubt."""
        starting = any(step.reason in STARTING for step in self.steps)
        return not starting and all(state.known_within(doubt) for state in self.states)

    @property
    def likely_steps(self) -> tuple[NextStep, ...]:
        """The steps that are likely to change an answer."""
        return tuple(step for step in self.steps if step.reason is not Reason.REST)


def decide(
    table: Table | None,
    grid: Sequence[GridChain],
    targets: Sequence[float],
    *,
    num_examples: float | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    minimise: str = Measure.STORED,
    law: str = AUTO,
) -> Decision:
    """What to train next of a grid, given the rows so far.

    The answer is for `num_examples` examples, by default the largest number of the grid. Chains on at most a thirtieth
    of them show the shape of the law; other chains are not trained.
    """
    examples = num_examples or max(chain.num_examples for chain in grid)
    there = Grid(chains=[chain for chain in grid if chain.num_examples == examples], targets=targets)
    fitted = _fitted(table, law) if table is not None and there.pruned else None
    start = tuple(_start(table, there, law_chains(grid, examples)))
    if fitted is None or not fitted.rises:
        known: list[Choice | None] = [None] * len(targets)
        if fitted is not None:
            known = answers_so_far(fitted, targets, examples, minimise, confidence)
        states = tuple(
            TargetState(target_error=target, choice=choice, doubt=math.inf, sizes=(0.0, math.inf))
            for target, choice in zip(targets, known, strict=True)
        )
        return Decision(steps=start or tuple(_any(there)), states=states, fit=fitted)
    outlook = Outlook.of(fitted, there, examples, minimise, confidence)
    states = tuple(outlook.states())
    steps = start or tuple(outlook.steps()) or tuple(outlook.unweighed())
    return Decision(steps=steps, states=states, fit=fitted)


def _fitted(table: Table, law: str) -> Fit | None:
    """The law, if the table has enough rows for one."""
    if not (table.frame["density"] < 1).any():
        return None
    try:
        return fit(table, law=law)
    except PrunecastError:  # too few rows so far
        return None


def _start(table: Table | None, grid: Grid, for_law: Sequence[GridChain]) -> Iterator[NextStep]:
    """The steps of the starting design that are not done yet."""
    missing = [chain for chain in spread_out(grid.sizes) if not chain.errors and not chain.ended]
    if missing or table is None:
        for chain in missing:
            yield grid.step(chain, Reason.START, seconds=chain.seconds)
        return
    short = [chain for chain in for_law if not chain.is_whole]
    if short:
        for chain in short:
            yield whole(chain, Reason.LAW)
        return
    over = [chain for chain in grid.sizes if grid.is_over(chain)]
    if len(over) >= min(1 if for_law else FIRST_CURVES, len(grid.sizes)):
        return
    unpruned = _unpruned_errors(table, grid.sizes)
    open_ = [
        (chain, error) for chain, error in zip(grid.sizes, unpruned, strict=True) if not grid.is_over(chain)
    ]
    best = [min(open_, key=lambda own: unlikely(own[1] / target))[0] for target in sorted(grid.targets)]
    yield from (grid.step(chain, Reason.FIRST_CURVE) for chain in dict.fromkeys(best))


def _unpruned_errors(table: Table, chains: Sequence[GridChain]) -> list[float]:
    """Measured, predicted by the dense law, or that of the nearest trained network."""
    points = measured(table).points
    dense = fit_dense(points, table.chance)
    known = {
        (points.depth[i], points.width[i], points.num_examples[i]): points.unpruned[i]
        for i in range(points.configurations)
    }
    volume = np.log(points.depth * points.width**2)
    found = []
    for chain in chains:
        own = known.get(chain.size)
        if own is None:
            place = math.log(chain.depth * chain.width**2)
            nearest = int(np.abs(volume - place).argmin())
            own = points.unpruned[nearest]
            if dense is not None:
                weights = np.exp(np.log(points.weights[nearest]) + place - volume[nearest])
                asked = (weights, chain.num_examples, chain.depth)
                own = float(dense.predict(*(np.array(value) for value in asked)))
        found.append(float(own))
    return found


def _any(grid: Grid) -> Iterator[NextStep]:
    """The rest of the grid, the cheapest first, if no law can be fitted after the starting design."""
    left = [chain for chain in grid.chains if not grid.is_over(chain)]
    for chain in sorted(left, key=lambda chain: (len(chain.errors) == 0, chain.seconds)):
        yield grid.step(chain, Reason.FIRST_CURVE)

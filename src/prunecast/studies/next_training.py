"""What to train next, so that the answer from a table becomes certain soonest, or that it is certain enough.

A table has no plan, so the chains that could be trained are made from its own sizes: more levels of the chains that it
has, another replicate of each size, and new chains at sizes that it leaves out or that lie between its widths. They are
weighed by the criterion of `decision`: how much of the answer's variance a chain takes off per unit of training.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from prunecast.catalog import FAMILIES
from prunecast.choice import (
    DEFAULT_CONFIDENCE,
    Counter,
    Measure,
    Naming,
    check_target,
    counter,
    examples_for,
    naming,
)
from prunecast.findings import Finding
from prunecast.laws import AUTO, Fit, fit
from prunecast.laws import findings as law_findings
from prunecast.studies.decision import (
    Grid,
    GridChain,
    NextStep,
    Outlook,
    Reason,
    TargetState,
    frontier_targets,
)
from prunecast.studies.findings import AxisToTrain, GainsAssumeLaw, TargetNotReached, UnprunedErrorsGuessed
from prunecast.table import Table

LOWEST_DENSITY = 1e-4
"""No chain is followed further."""
MOST = 5
"""Suggestions that are listed."""


class SuggestionKind(StrEnum):
    """What to train."""

    NEW_CHAIN = "new chain"
    MORE_LEVELS = "more levels"
    REPLICATE = "another replicate"


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One chain to train, how far, and what it takes off the doubt."""

    kind: SuggestionKind
    depth: float
    width: float
    num_examples: float
    until_error: float
    """the error from which on further levels do not matter"""
    unpruned_first: bool
    """whether its unpruned network alone is worth more per unit of training than the whole chain"""
    training_runs: int
    """training runs that this takes, as the law expects"""
    cost: float
    """in training runs of the costliest measured network"""
    gain: float | None
    """expected share taken off the variance of the answers; None where the law expects little of any chain"""


@dataclass(frozen=True, kw_only=True)
class AnswerSoFar:
    """The smallest network for one target, as far as it is known."""

    target_error: float
    met: bool
    """whether a network is expected to meet the target with the confidence asked for"""
    depth: float | None = None
    """None, as all that follows, where nothing meets the target"""
    width: float | None = None
    density: float | None = None
    size: float | None = None
    """stored parameters"""
    smallest: tuple[float, float] | None = None
    """in which the size of the smallest possible network lies with a probability of 90%"""
    doubt: float | None = None
    """standard deviation of the logarithm of that size"""


@dataclass(frozen=True, kw_only=True)
class NextTraining:
    """What to train next, best value first, and what is known so far."""

    law: str
    table: str
    num_examples: float
    confidence: float
    answers: tuple[AnswerSoFar, ...]
    """one for each target, none where no law can be fitted that rises"""
    settled: bool
    """whether more training would hardly change any answer"""
    suggestions: tuple[Suggestion, ...]
    kept_per_level: float
    """share of the weights that each suggested level keeps"""
    findings: tuple[Finding, ...]
    naming: Naming
    """how the table's networks are named"""


def next_training(
    table: Table,
    *,
    law: str = AUTO,
    target_error: float | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    num_examples: float | None = None,
) -> NextTraining:
    """Rank chains by what they take off the doubt about the smallest network, per unit of training.

    Without a target the doubt is about five errors over the range of the networks. Answers are about `num_examples`
    training examples, by default the largest number in the table; only chains of this size are suggested.
    """
    check_target(target_error, table.metric)
    fitted = fit(table, law=law)
    examples, count = examples_for(fitted, num_examples), counter(fitted)
    grid = Grid(
        chains=list(_chains(table, fitted, count, examples)), targets=_targets(fitted, examples, target_error)
    )
    states: list[TargetState] = []
    suggestions = list(_continued(grid))
    if fitted.rises:
        outlook = Outlook.of(fitted, grid, examples, Measure.STORED, confidence)
        states = list(outlook.states())
        steps = list(outlook.steps()) or list(outlook.likely())
        suggestions = [_suggestion(step, grid, outlook) for step in steps]
    answers = tuple(_answer(state) for state in states)
    named = naming(fitted, count)
    return NextTraining(
        law=fitted.family_law,
        table=table.source,
        num_examples=examples,
        confidence=confidence,
        answers=answers,
        settled=all(state.known_within(0.1) for state in states) and any(answer.met for answer in answers),
        suggestions=tuple(_one_per_size(suggestions))[:MOST],
        kept_per_level=fitted.kept_per_level,
        findings=(
            *_findings(fitted, named, target_error, answers),
            *([GainsAssumeLaw()] if any(own.gain is not None for own in suggestions) else []),
        ),
        naming=named,
    )


def _targets(fitted: Fit, examples: float, target_error: float | None) -> tuple[float, ...]:
    if target_error is not None:
        return (target_error,)
    here = [c.unpruned_error for c in fitted.configurations if c.num_examples == examples]
    unpruned = here or [c.unpruned_error for c in fitted.configurations]
    return frontier_targets(unpruned, fitted.high_error)


def _chains(table: Table, fitted: Fit, count: Counter, examples: float) -> Iterator[GridChain]:
    """The chains of a table with this number of examples, and those that could be begun."""
    cap = max(1, round(math.log(LOWEST_DENSITY) / math.log(fitted.kept_per_level)))

    def chain(depth: float, width: float, replicate: int, errors: tuple[float, ...] = ()) -> GridChain:
        counts = count(np.array([depth]), np.array([width]))
        return GridChain(
            depth=depth,
            width=width,
            num_examples=examples,
            replicate=replicate,
            level_cap=cap,
            seconds=float(count.cost_per_run(counts, np.array([examples]))[0]),
            errors=errors,
        )

    frame = table.frame
    rows = frame[frame["num_examples"] == examples].sort_values("density", ascending=False)
    replicates: dict[tuple[float, float], int] = {}
    for _, own in rows.groupby(["depth", "width", "replicate"]):
        depth, width, replicate = (own[name].iloc[0].item() for name in ("depth", "width", "replicate"))
        pruned = own.loc[own["density"] < 1, "error"].tolist()
        yield chain(depth, width, int(replicate), (float(own["unpruned_error"].iloc[0]), *pruned))
        replicates[depth, width] = max(int(replicate), replicates.get((depth, width), 0))
    for (depth, width), last in replicates.items():
        yield chain(depth, width, last + 1)
    for depth, width in _other_sizes(fitted, examples):
        yield chain(depth, width, 1)


def _other_sizes(fitted: Fit, examples: float) -> list[tuple[float, float]]:
    """Pairs of the table's depths and widths without a chain, and widths halfway between two of them."""
    known = {(c.depth, c.width) for c in fitted.configurations if c.num_examples == examples}
    depths = sorted({c.depth for c in fitted.configurations})
    widths = sorted({c.width for c in fitted.configurations})
    between = [float(f"{math.sqrt(low * high):.2g}") for low, high in pairwise(widths)]
    return [
        (depth, width)
        for depth in depths
        for width in sorted({*widths, *between})
        if (depth, width) not in known
    ]


def _suggestion(step: NextStep, grid: Grid, outlook: Outlook) -> Suggestion:
    chain, cost = step.chain, step.seconds
    index = grid.chains.index(chain)
    if step.reason is Reason.LIKELY:
        cost = chain.seconds * float(outlook.levels_left[index])
    unpruned = float(outlook.networks.expected_unpruned_error[index])
    return Suggestion(
        kind=_kind(chain, grid),
        depth=chain.depth,
        width=chain.width,
        num_examples=chain.num_examples,
        until_error=step.until_error or grid.stop_error(unpruned),
        unpruned_first=step.reason is Reason.UNPRUNED,
        training_runs=round(cost / chain.seconds),
        cost=cost,
        gain=None if math.isnan(step.gain) else step.gain,
    )


def _kind(chain: GridChain, grid: Grid) -> SuggestionKind:
    if chain.errors:
        return SuggestionKind.MORE_LEVELS
    begun = any(other.size == chain.size and other.errors for other in grid.chains)
    return SuggestionKind.REPLICATE if begun else SuggestionKind.NEW_CHAIN


def _continued(grid: Grid) -> Iterator[Suggestion]:
    """More levels of every chain whose curve has not risen yet, the cheapest first."""
    left = [chain for chain in grid.chains if chain.errors and not grid.is_over(chain)]
    for chain in sorted(left, key=lambda own: own.seconds):
        levels = chain.level_cap + 1 - len(chain.errors)
        yield Suggestion(
            kind=SuggestionKind.MORE_LEVELS,
            depth=chain.depth,
            width=chain.width,
            num_examples=chain.num_examples,
            until_error=grid.stop_error(chain.errors[0]),
            unpruned_first=False,
            training_runs=levels,
            cost=levels * chain.seconds,
            gain=None,
        )


def _one_per_size(found: Sequence[Suggestion]) -> Iterator[Suggestion]:
    seen: set[tuple[float, float]] = set()
    for own in found:
        if (own.depth, own.width) not in seen:
            seen.add((own.depth, own.width))
            yield own


def _answer(state: TargetState) -> AnswerSoFar:
    choice = state.choice
    if choice is None or not choice.met:
        return AnswerSoFar(target_error=state.target_error, met=False)
    best = choice.answer
    return AnswerSoFar(
        target_error=state.target_error,
        met=True,
        depth=best.depth,
        width=best.width,
        density=best.density,
        size=best.stored_parameters,
        smallest=state.sizes,
        doubt=state.doubt,
    )


def _findings(
    fitted: Fit, named: Naming, target_error: float | None, answers: Sequence[AnswerSoFar]
) -> Iterator[Finding]:
    """What the weighing leaves out."""
    if target_error is not None and not any(answer.met for answer in answers):
        yield TargetNotReached(target_error=target_error)
    first = fitted.configurations[0]
    for axis, example in (("depth", _other_depth(fitted)), ("width", first.width / 4)):
        if not _varies(fitted, axis) and (axis in named.axes or axis == "width"):
            yield AxisToTrain(axis=axis, example=example)
    if fitted.dense is None and fitted.axes:
        yield UnprunedErrorsGuessed()
    about_parameters = law_findings.NoRise | law_findings.Undetermined
    yield from (own for own in fitted.findings if isinstance(own, about_parameters))


def _varies(fitted: Fit, axis: str) -> bool:
    return len({getattr(c, axis) for c in fitted.configurations}) > 1


def _other_depth(fitted: Fit) -> float:
    """The next shallower depth of a built-in family, else half the depth."""
    own = fitted.configurations[0].depth
    family = FAMILIES.get(fitted.origin.family)
    if family is None:
        return own / 2
    shallower = [depth for depth in family.depths if depth < own]
    return shallower[-1] if shallower else next(depth for depth in family.depths if depth > own)

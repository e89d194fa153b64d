"""The search for an answer: read the store, decide, train a few chains further, and repeat.

A round depends only on the store, so a search that was stopped or killed continues where it was. The engine runs the
chains of a round as it runs those of a plan, on this machine or in the workers of a backend.
"""

import contextlib
import dataclasses
import io
import math
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pandas as pd

from prunecast.choice import DEFAULT_CONFIDENCE, Measure, as_measure, check_target, validated
from prunecast.errors import PrunecastError
from prunecast.laws import AUTO
from prunecast.metric import Metric
from prunecast.pruning import Record
from prunecast.spec import CHANNELS, ChainSpec, as_columns
from prunecast.studies import ENOUGH, SETTLED, Decision, GridChain, NextStep, decide, frontier_targets
from prunecast.sweep import (
    ChainStatus,
    Event,
    Executor,
    Failed,
    Plan,
    PlannedChain,
    Progress,
    SweepProgress,
    as_csv,
    chain_statuses,
    rows_of,
    run_chains,
)
from prunecast.table import Table, read
from prunecast.text import listed

PACKED = 8
"""Chains that a fleet or a cluster trains in one round."""
METRICS = (Metric.ERROR, Metric.LOSS)
NAMES = ("family", "dataset", "method", "recipe")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The limits of a search; None means no limit."""

    hours: float | None = None
    """hours of this run"""
    training_runs: int | None = None
    """training runs in the store, those of earlier runs included"""

    def check(self) -> None:
        """Refuse a budget that allows nothing."""
        if self.hours is not None and not 0 < self.hours < math.inf:
            raise PrunecastError(f"--hours is {self.hours:g}; give a positive number of hours")
        if self.training_runs is not None and self.training_runs < 1:
            raise PrunecastError(f"--training-runs is {self.training_runs}; give 1 or more")


@dataclass(frozen=True, kw_only=True)
class Search:
    """What to search for."""

    targets: tuple[float, ...] = ()
    """target errors, or losses; if empty, several over the range of the networks"""
    metric: Metric = Metric.ERROR
    """the error or the loss on the test set"""
    confidence: float = DEFAULT_CONFIDENCE
    minimise: str = Measure.STORED
    num_examples: int | None = None
    """by default the largest number in the plan"""
    law: str = AUTO
    uncertainty: float | None = None
    """the search ends when no answer is more uncertain; by default 15%, or 10% without targets"""
    budget: Budget = dataclasses.field(default_factory=Budget)

    @property
    def uncertainty_at_end(self) -> float:
        """The search ends when no answer is more uncertain than this."""
        return self.uncertainty or (ENOUGH if self.targets else SETTLED)

    def check(self, plan: Plan) -> None:
        """Refuse an impossible search before anything is trained."""
        self.budget.check()
        if self.metric not in METRICS:
            raise PrunecastError(f"find cannot search by {self.metric}; give one of {listed(METRICS)}")
        for target in self.targets:
            check_target(target, self.metric)
        if not 0 < self.confidence < 1:
            raise PrunecastError(f"--confidence is {self.confidence:g}; give a probability between 0 and 1")
        if self.uncertainty is not None and not 0 < self.uncertainty < math.inf:
            raise PrunecastError(f"--uncertainty is {self.uncertainty:g}; give a positive number")
        if not self.targets and self.budget == Budget():
            raise PrunecastError(
                "find needs a target error or a budget: --target-error, --hours or --training-runs"
            )
        specs = [chain.spec for chain in plan.chains]
        columns = [as_columns(spec) for spec in specs]
        apart = [name for name in NAMES if len({own[name] for own in columns}) > 1]
        if apart:
            raise PrunecastError(
                f"find needs a plan with one {listed(apart)}, but {plan.name} has several; split it into plans"
            )
        self._check_measure(specs[0])
        known = sorted({spec.num_examples for spec in specs})
        if self.num_examples is not None and self.num_examples not in known:
            raise PrunecastError(
                f"--num-examples is {self.num_examples}, but the plan {plan.name} has {listed(map(str, known))}; give "
                "one of them"
            )

    def _check_measure(self, spec: ChainSpec) -> None:
        """Refuse a measure that is unknown before a network is trained."""
        measure = as_measure(self.minimise)
        command = f"`prunecast choose TABLE --minimise {self.minimise}`"
        if measure in (Measure.BYTES, Measure.LATENCY):
            writes = "time" if measure is Measure.LATENCY else "export"
            raise PrunecastError(
                f"find cannot minimise {measure.value}, which is known of trained networks only; train the grid with "
                f"`prunecast run PLAN`, then use `prunecast {writes} PLAN -o TABLE` and {command}"
            )
        if measure is Measure.MULTIPLY_ADDS and spec.method.structure == CHANNELS:
            raise PrunecastError(
                "find cannot minimise multiply-adds where whole channels are removed, because they are known of "
                "trained networks only; minimise stored, or train the grid with `prunecast run PLAN -o TABLE` and use "
                f"{command}"
            )


class Stop(StrEnum):
    """Why a search ended."""

    SETTLED = "settled"
    """the answers are known well enough"""
    NOTHING_LEFT = "nothing left"
    """no chain of the plan would change an answer much"""
    HOURS = "hours"
    TRAINING_RUNS = "training runs"


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What was trained so far."""

    training_runs: int
    """training runs in the store"""
    seconds: float
    """the sum of their training times"""
    hours: float
    """hours since this run began"""
    grid_seconds: float
    """the most that all levels of the grid would take at the speed so far; NaN before anything is trained"""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What the store shows, and what comes next."""

    decision: Decision
    table: Table | None
    spent: Spent
    steps: tuple[NextStep, ...]
    """what is trained now; empty at the end"""
    stop: Stop | None
    """why the search ends; None while it continues"""
    perfect: int = 0
    """networks that misclassify no test image; each counts as half an image, because a law cannot fit an error of 0"""


def at_once(device: str, jobs: int, *, cluster: bool, limit: int | None = None) -> int:
    """How many chains to train per round: one for each job, or enough for a fleet or a cluster."""
    return limit or (PACKED if cluster or device != "cpu" else jobs)


def search(
    plan: Plan, store: Path, wanted: Search, *, executor: Executor, chains: int = 1
) -> Generator[Round | Event, None, None]:
    """Train what the answers need, `chains` chains per round; yield each round before it begins, then its events.

    The last round has a reason to stop and no steps.
    """
    began, failed = time.monotonic(), set[int]()
    while True:
        now = _look(plan, store, wanted, failed, began, chains)
        yield now
        if now.stop is not None:
            return
        jobs = [_job(plan, step, wanted.metric) for step in now.steps]
        with contextlib.closing(run_chains(jobs, store, executor)) as events:
            done = now.spent.training_runs
            for event in events:
                yield event
                if isinstance(event, Failed):
                    failed.add(event.number)
                done += isinstance(event, Progress)
                if _over(wanted.budget, done, time.monotonic() - began):
                    break


def ends_step(event: Event) -> bool:
    """Whether a step of a round has ended with this event."""
    return isinstance(event, Failed) or (isinstance(event, Progress) and bool(event.ended))


def _over(budget: Budget, training_runs: int, seconds: float) -> Stop | None:
    """The limit of the budget that is reached, if any."""
    if budget.hours is not None and seconds >= 3600 * budget.hours:
        return Stop.HOURS
    if budget.training_runs is not None and training_runs >= budget.training_runs:
        return Stop.TRAINING_RUNS
    return None


def _look(plan: Plan, store: Path, wanted: Search, failed: set[int], began: float, chains: int) -> Round:
    measured = chain_statuses(plan, store)
    for damaged in (own for own in measured if own.problem):
        raise PrunecastError(damaged.problem)
    statuses = [_fittable(own, wanted.metric) for own in measured]
    table = table_of(statuses, wanted.metric)
    grid = _grid(statuses, failed, wanted.metric)
    targets = wanted.targets or _frontier_targets(grid, statuses, wanted.metric)
    decision = decide(
        table,
        grid,
        targets,
        num_examples=wanted.num_examples,
        confidence=wanted.confidence,
        minimise=wanted.minimise,
        law=wanted.law,
    )
    records = [record for own in measured for record in own.records]
    spent = Spent(
        training_runs=len(records),
        seconds=sum(record.seconds for record in records),
        hours=(time.monotonic() - began) / 3600,
        grid_seconds=sum(chain.seconds * (chain.level_cap + 1) for chain in grid) if records else math.nan,
    )
    open_steps = decision.likely_steps if wanted.uncertainty is None else decision.steps
    stop = _over(wanted.budget, spent.training_runs, 3600 * spent.hours)
    if decision.known_within(wanted.uncertainty_at_end):
        stop = Stop.SETTLED
    elif stop is None and not open_steps:
        stop = Stop.NOTHING_LEFT
    steps = () if stop else open_steps[: _room(wanted.budget, spent.training_runs, chains)]
    perfect = sum(record.error == 0 for record in records)
    return Round(
        decision=decision,
        table=table,
        spent=spent,
        steps=steps,
        stop=stop,
        perfect=perfect if wanted.metric is Metric.ERROR else 0,
    )


def _room(budget: Budget, training_runs: int, chains: int) -> int:
    return chains if budget.training_runs is None else min(chains, budget.training_runs - training_runs)


def table_of(statuses: Sequence[ChainStatus], metric: Metric = Metric.ERROR) -> Table | None:
    """The table so far, as a file of it would be read; None before anything is trained."""
    rows = rows_of(statuses)
    if not rows:
        return None
    table = read(pd.read_csv(io.StringIO(as_csv(rows))), metric=metric)
    return validated(table) or table


def _fittable(status: ChainStatus, metric: Metric) -> ChainStatus:
    """The status with values that a law can fit: no error below that of half an image, and only finite losses."""
    spec, facts = status.chain.spec, status.chain.facts
    assert facts is not None, "data that is not known by name has been looked at"

    def raised(record: Record) -> Record:
        held_out = record.validation_error
        if held_out is not None:
            held_out = max(held_out, 0.5 / max(1, spec.recipe.validation_examples))
        return dataclasses.replace(
            record, error=max(record.error, 0.5 / facts.test_examples), validation_error=held_out
        )

    kept = (record for record in status.records if metric is Metric.ERROR or record.loss is not None)
    return dataclasses.replace(status, records=tuple(map(raised, kept)))


def _grid(statuses: Sequence[ChainStatus], failed: set[int], metric: Metric) -> list[GridChain]:
    seconds = SweepProgress(statuses)
    return [
        GridChain(
            depth=own.chain.spec.depth,
            width=own.chain.spec.width,
            num_examples=own.chain.spec.num_examples,
            replicate=own.chain.spec.replicate,
            level_cap=own.chain.rules.level_cap,
            seconds=seconds.seconds_per_level(own.chain),
            errors=tuple(_value(record, metric) for record in own.records),
            ended=bool(own.ended or own.left_out or own.number in failed),
        )
        for own in statuses
    ]


def _value(record: Record, metric: Metric) -> float:
    if metric is Metric.ERROR:
        return record.selection_error
    assert record.loss is not None, "it was not kept"
    return record.loss


def _frontier_targets(
    grid: Sequence[GridChain], statuses: Sequence[ChainStatus], metric: Metric
) -> tuple[float, ...]:
    """Errors over the range of the plan's networks."""
    unpruned = [chain.errors[0] for chain in grid if chain.errors]
    chance = [own.records[0].chance_error for own in statuses if own.records]
    if not unpruned:
        return (0.5,)  # the first networks do not depend on it
    highest = (
        chance[0] if metric is Metric.ERROR else -math.log(1 - chance[0])
    )  # guessing one of k classes: log k
    return frontier_targets(unpruned, highest)


def _job(plan: Plan, step: NextStep, metric: Metric) -> tuple[int, PlannedChain]:
    """The chain of a step by its number in the plan, with the rules that end it there."""
    wanted = (*step.chain.size, step.chain.replicate)
    for number, chain in enumerate(plan.chains, 1):
        spec = chain.spec
        if (spec.depth, spec.width, spec.num_examples, spec.replicate) == wanted and not spec.final_nonzero:
            end = {"level_cap": 0} if step.until_error is None else {f"until_{metric}": step.until_error}
            return number, dataclasses.replace(
                chain, rules=dataclasses.replace(chain.rules, **end), select=None
            )
    raise AssertionError(f"no chain of {plan.name} is {wanted}")

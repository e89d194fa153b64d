"""Sentences about a search: the answers so far, what was spent, what comes next and why, and why it ended."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prunecast.find.search import Budget, Round, Spent, Stop
from prunecast.pruning import ERROR_REACHED, LEVEL_CAP
from prunecast.report import Grid, Section
from prunecast.studies import NextStep, Reason, TargetState
from prunecast.sweep import Event, Plan, Progress, event_line
from prunecast.text import duration, plural
from prunecast.wording import numbers

WHY = {
    Reason.START: "to measure the range of the plan",
    Reason.LAW: "a cheap curve that shows the shape of the law",
    Reason.FIRST_CURVE: "it should be about the right size",
    Reason.UNPRUNED: "its unpruned error matters most",
    Reason.CURVE: "its curve matters most",
    Reason.SHAPE: "its whole curve shows the shape of the law",
    Reason.REST: "it is left, and nothing else is more likely to matter",
    Reason.LIKELY: "it may be the right size",
}


def answer_words(state: TargetState) -> str:
    """The answer so far for one target, and how uncertain it is."""
    chosen = state.choice
    aim = f"error {state.target_error:g}"
    if chosen is None:
        return f"{aim}: no answer yet"
    best = chosen.answer
    network = f"depth {best.depth:g}, width {best.width:g}, density {numbers.density(best.density)}"
    if not chosen.met:
        return (
            f"{aim}: not reached by any network so far; the lowest is {best.expected_error:.4f} ({network})"
        )
    size = f"{best.stored_parameters:,.0f} stored parameters"
    low, high = state.sizes
    if math.isinf(high):
        return f"{aim}: {network}, {size}; it was trained, and the law says nothing of others"
    return f"{aim}: {network}, {size}; the smallest possible network has {low:,.0f} to {high:,.0f} (90% interval)"


def network_words(step: NextStep) -> str:
    """The network of a step, with its number of examples where it is not the one asked about."""
    chain = step.chain
    network = f"depth {chain.depth:g}, width {chain.width:g}"
    return f"{network}, {chain.num_examples:,.0f} examples" if step.reason is Reason.LAW else network


def step_words(step: NextStep) -> str:
    """What is trained next, and why."""
    how_far = (
        "unpruned" if step.until_error is None else f"pruned until its error exceeds {step.until_error:.3g}"
    )
    if step.reason in (Reason.LAW, Reason.SHAPE, Reason.REST):
        how_far = "pruned to the last level"
    known = step.gain == step.gain
    gain = (
        f"; it should reduce the uncertainty by {step.gain:.0%} in about {duration(step.seconds)}"
        if known
        else ""
    )
    return f"{network_words(step)}, {how_far} ({WHY[step.reason]}{gain})"


def training_line(plan: Plan, event: Event) -> str:
    """One line about a training run; the search may continue a chain that it has trained far enough for now."""
    if isinstance(event, Progress) and event.ended in (LEVEL_CAP, ERROR_REACHED):
        event = replace(event, ended="")
    return event_line(plan, event)


def spent_words(spent: Spent) -> str:
    """What was trained so far."""
    runs = f"{plural(spent.training_runs, 'training run')}, {duration(spent.seconds)} of training"
    known = spent.grid_seconds == spent.grid_seconds
    return f"{runs}; the whole grid would take at most {duration(spent.grid_seconds)}" if known else runs


def round_text(now: Round) -> Iterator[str]:
    """The answers so far, what was spent, and what comes next."""
    yield f"Trained: {spent_words(now.spent)}."
    for state in now.decision.states:
        yield f"  {answer_words(state)}"
    for step in now.steps:
        yield f"  next: {step_words(step)}"


def stop_line(now: Round, budget: Budget) -> str:
    """Why a search has ended."""
    reasons = {
        Stop.SETTLED: "the answer is known well enough",
        Stop.NOTHING_LEFT: "no other chain of the plan is likely to change the answer much",
        Stop.HOURS: f"the budget of {budget.hours or 0:g} h is spent",
        Stop.TRAINING_RUNS: f"the budget of {plural(budget.training_runs or 0, 'training run')} is spent",
    }
    assert now.stop is not None
    return f"Finished, because {reasons[now.stop]}. Trained: {spent_words(now.spent)}."


def history_section(rounds: Sequence[Round]) -> Section:
    """The search as a section of the page: the rounds so far, and what comes next."""
    now = rounds[-1]
    rows = [
        [
            f"{one.spent.training_runs:,}",
            duration(one.spent.seconds),
            "; ".join(_size(state) for state in one.decision.states),
            "; ".join(_doubt(state) for state in one.decision.states),
            "; ".join(network_words(step) for step in one.steps),
        ]
        for one in rounds
    ]
    header = ["Training runs", "Training time", "Stored parameters", "Uncertainty", "Trained next"]
    return Section(
        name="search",
        title="The search",
        text=[
            f"Trained: {spent_words(now.spent)}.",
            *(f"Target {answer_words(state)}." for state in now.decision.states),
            *(f"Next: {step_words(step)}." for step in now.steps),
        ],
        grids=[Grid(header=header, rows=rows, left=0, caption="All decisions of the search", long=True)],
        notes=["Uncertainty is the standard deviation of the logarithm of the smallest network's size."],
    )


def _size(state: TargetState) -> str:
    met = state.choice is not None and state.choice.met
    return f"{state.choice.answer.stored_parameters:,.0f}" if met and state.choice else "–"


def _doubt(state: TargetState) -> str:
    return f"{state.doubt:.0%}" if state.doubt < 10 else "–"

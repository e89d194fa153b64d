"""Sentences about a search: the answers so far, what was spent, what comes next and why, and why the search ended."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from prunecast.choice import as_measure
from prunecast.find.search import Budget, Round, Search, Spent, Stop
from prunecast.metric import Metric
from prunecast.pruning import ERROR_REACHED, LEVEL_CAP
from prunecast.report import Grid, Section
from prunecast.studies import NextStep, Reason, TargetState
from prunecast.sweep import Event, Plan, Progress, event_line
from prunecast.text import capital, duration, listed, plural
from prunecast.wording import numbers

WHY = {
    Reason.START: "it measures the range of the plan",
    Reason.LAW: "its curve is cheap and shows the shape of the law",
    Reason.FIRST_CURVE: "it is probably about the right size",
    Reason.UNPRUNED: "its unpruned error reduces the uncertainty most per second",
    Reason.CURVE: "its curve reduces the uncertainty most per second",
    Reason.SHAPE: "its whole curve shows the shape of the law",
    Reason.REST: "it is not trained yet, and nothing else is more likely to change the answer",
    Reason.LIKELY: "it may be the smallest network itself",
}
BUDGETS = (Stop.HOURS, Stop.TRAINING_RUNS)


def answer_lines(state: TargetState, wanted: Search) -> Iterator[str]:
    """The answer so far for one target, and how uncertain it is."""
    chosen, aim = state.choice, wanted.uncertainty_at_end
    word, article = wanted.metric.word, wanted.metric.article
    target = f"{capital(word)} {state.target_error:g}"
    if chosen is None:
        yield f"{target}: no answer yet."
        return
    best = chosen.answer
    kept = "unpruned" if best.density == 1 else numbers.kept(best.density)
    network = f"depth {best.depth:g}, width {best.width:.4g}, {kept}"
    if not chosen.met:
        yield f"{target}: not reached by any network so far; the lowest is {best.expected_error:.4f} ({network})."
        return
    yield f"{target}: {network}: {best.stored_parameters:,.0f} stored parameters."
    yield f"  95% of new training runs have {article} {word} of {_interval(best.interval)}."
    low, high = state.sizes
    if math.isinf(high):
        yield "  It was trained. No law can be fitted yet, so other networks are not considered."
        return
    form, unit = ",.0f" if high >= 10 else ".3g", as_measure(wanted.minimise).unit
    sizes = f"{low:{form}} to {high:{form}} {unit} (90% interval)"
    if state.known_within(aim):
        yield f"  The smallest network has {sizes}: known well enough."
    elif state.doubt <= aim:
        yield f"  The smallest network may have {sizes}; the law is not reliable yet."
    else:
        yield f"  The smallest network may have {sizes}: uncertainty {state.doubt:.0%}, aim {aim:.0%}."


def _interval(interval: tuple[float, float]) -> str:
    return " to ".join(f"{value:.2g}" for value in interval)


def network_words(step: NextStep) -> str:
    """The network of a step, with its number of examples where it is not the one asked about."""
    chain = step.chain
    network = f"depth {chain.depth:g}, width {chain.width:g}"
    return f"{network}, {chain.num_examples:,.0f} examples" if step.reason is Reason.LAW else network


def step_words(step: NextStep, metric: Metric) -> str:
    """What is trained next."""
    if step.until_error is None:
        how_far = "unpruned"
    elif math.isinf(step.until_error):
        how_far = "pruned to the last level"
    else:
        how_far = f"pruned until its {metric.word} exceeds {step.until_error:.3g}"
    return f"{network_words(step)}, {how_far}"


def why_words(step: NextStep) -> str:
    """Why it is trained next."""
    known = "" if math.isnan(step.gain) else f" (by {step.gain:.0%} in about {duration(step.seconds)})"
    return f"{WHY[step.reason]}{known}"


def training_line(plan: Plan, event: Event) -> str:
    """One line about a training run. That the search stops a chain for now is no end of the chain."""
    if isinstance(event, Progress) and event.ended in (LEVEL_CAP, ERROR_REACHED):
        event = replace(event, ended="")
    return event_line(plan, event)


def training_words(last: Round | Event) -> str:
    """What is being trained, given the last thing that a search reported."""
    if isinstance(last, Round):
        return f"training {listed(map(network_words, last.steps))}"
    spec = last.chain.spec
    if not isinstance(last, Progress):
        return "training"
    level, seconds = last.record.level + 1, duration(last.record.seconds)
    return f"training depth {spec.depth}, width {spec.width:g}, level {level}; the last level took {seconds}"


def spent_words(spent: Spent) -> str:
    """What was trained so far."""
    runs = f"{plural(spent.training_runs, 'training run')}, {duration(spent.seconds)} of training"
    if math.isnan(spent.grid_seconds):
        return runs
    return f"{runs}; the whole grid: at most {duration(spent.grid_seconds)}"


def perfect_sentence(networks: int) -> str:
    """How networks without a misclassified test image count; empty if there are none."""
    if not networks:
        return ""
    return (
        f"{plural(networks, 'network', 'misclassifies', 'misclassify')} no test image, which counts as half an image: "
        "a law cannot fit an error of 0. With --metric loss the search goes by the loss."
    )


def round_text(now: Round, wanted: Search) -> Iterator[str]:
    """What was spent, the answers so far, and what comes next and why."""
    yield f"Trained so far: {spent_words(now.spent)}."
    for state in now.decision.states:
        yield from (f"  {line}" for line in answer_lines(state, wanted))
    if sentence := perfect_sentence(now.perfect):
        yield f"  {sentence}"
    for step in now.steps:
        yield f"  Next: {step_words(step, wanted.metric)}"
        yield f"    Why: {why_words(step)}."


def stop_line(now: Round, budget: Budget) -> str:
    """Why a search has ended."""
    reasons = {
        Stop.SETTLED: "the answer is known well enough",
        Stop.NOTHING_LEFT: "no other chain of the plan is likely to change the answer much",
        Stop.HOURS: f"the budget of {budget.hours or 0:g} h is spent",
        Stop.TRAINING_RUNS: f"the budget of {plural(budget.training_runs or 0, 'training run')} is spent",
    }
    assert now.stop is not None
    more = " Run the same command with a larger budget to continue." if now.stop in BUDGETS else ""
    return f"The search ends: {reasons[now.stop]}.{more}"


def history_section(rounds: Sequence[Round], wanted: Search) -> Section:
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
            *(" ".join(map(str.strip, answer_lines(state, wanted))) for state in now.decision.states),
            *filter(None, [perfect_sentence(now.perfect)]),
            *(f"Next: {step_words(step, wanted.metric)}: {why_words(step)}." for step in now.steps),
        ],
        grids=[Grid(header=header, rows=rows, left=0, caption="All decisions of the search", long=True)],
        notes=["Uncertainty is the standard deviation of the logarithm of the smallest network's size."],
    )


def _size(state: TargetState) -> str:
    met = state.choice is not None and state.choice.met
    return f"{state.choice.answer.stored_parameters:,.0f}" if met and state.choice else "–"


def _doubt(state: TargetState) -> str:
    return f"{state.doubt:.0%}" if state.doubt < 10 else "–"

"""The answers that a page looks up: one choice for each of many target errors."""

from dataclasses import dataclass

import numpy as np

from prunecast.choice import Choice, Network, choose_each
from prunecast.choice.checks import ceiling
from prunecast.choice.density import log_error
from prunecast.choice.sizes import DEFAULT_REACH
from prunecast.laws import Fit
from prunecast.report import words
from prunecast.report.curves import family

MOST = 160
"""How many targets a page holds for one number of examples."""
STEPS = ((2.0, 0.02), (5.0, 0.05), (10.0, 0.1))
"""Steps of the targets' first digits: up to 2 by 0.02, up to 5 by 0.05, up to 10 by 0.1; none over 2%."""
HIGHEST = 0.9
"""Targets go up to this share of ε↑."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A choice with its words, ready to be shown."""

    target: float
    choice: Choice

    @property
    def network(self) -> Network:
        """The network chosen."""
        return self.choice.answer


def targets(lowest: float, highest: float, most: int = MOST) -> list[float]:
    """Round target errors between two errors; every second or third where there would be too many."""
    decades = range(int(np.floor(np.log10(lowest))), int(np.ceil(np.log10(highest))) + 1)
    mantissas, start = [], 1.0
    for end, step in STEPS:
        mantissas += (start + step * np.arange(round((end - start) / step))).tolist()
        start = end
    grid = [round(m * 10.0**decade, 8 - decade) for decade in decades for m in mantissas]
    inside = [float(f"{value:.6g}") for value in grid if lowest <= value <= highest]
    return inside[:: max(1, -(-len(inside) // most))]


def least_error(fit: Fit, num_examples: float | None, reach: str) -> float:
    """The least error among unpruned candidates and measured rows."""
    members = family(fit, num_examples, reach)
    unpruned = float(np.exp(log_error(fit, members, np.ones(len(members))).min()))
    known = [
        c.lowest_error for c in fit.configurations if np.isclose(c.num_examples, members.num_examples[0])
    ]
    return min([unpruned, *known])


def answers(
    fit: Fit,
    *,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = DEFAULT_REACH,
    confidence: float = 0.5,
    most: int = MOST,
) -> list[Answer]:
    """One choice for each target, from one that nothing meets to nearly ε↑ or chance."""
    lowest = least_error(fit, num_examples, sizes)
    wanted = targets(lowest, ceiling(fit) * HIGHEST, most)
    if not wanted or wanted[0] > lowest * 1.0001:
        wanted.insert(0, float(f"{lowest * 0.995:.3g}"))
    choices = choose_each(
        fit, wanted, minimise=minimise, num_examples=num_examples, sizes=sizes, confidence=confidence
    )
    return [Answer(target=target, choice=choice) for target, choice in zip(wanted, choices, strict=True)]


def headline(answer: Answer) -> str:
    """What to do, in a sentence; where nothing meets the target, what comes closest."""
    best = answer.network
    size = f"depth {words.size(best.depth)}, width {words.size(best.width)}"
    density = f"to density {words.density(best.density)}"
    if not answer.choice.met:
        return f"Nothing here meets it. Closest is {size}, {f'pruned {density}' if best.level else 'not pruned'}."
    return f"Train {size}, and {f'prune it {density}' if best.level else 'do not prune it'}."


def facts(answer: Answer) -> list[tuple[str, str, str]]:
    """Name, value and remark of everything an answer holds."""
    best, question = answer.network, answer.choice.question
    low, high = best.interval
    how = "measured" if best.source == "measured" else "by the law"
    source = f"{words.error(best.unpruned_error)} unpruned, {best.unpruned_source}"
    rows = [
        ("Network", f"depth {words.size(best.depth)}, width {words.size(best.width)}", source),
        ("Density", words.density(best.density), words.plural(best.level, "level") + " of 20%"),
        ("Size", words.count(best.stored_parameters), _size_remark(best)),
        ("Error", words.error(best.error), how),
        ("95% of new trainings", f"{words.error(low)} – {words.error(high)}", _chance(answer)),
        ("Training cost", words.number(best.training_cost), _cost_remark(best)),
    ]
    if question.minimise == "multiply-adds" and best.multiply_adds is not None:
        rows.insert(3, ("Multiply-adds", words.count(best.multiply_adds), "an image, zeros skipped"))
    return rows


def _size_remark(best: Network) -> str:
    if best.stored_parameters == best.nonzero_parameters:
        return "non-zero weights"
    return f"parameters stored; {words.count(best.nonzero_parameters)} of them weights"


def _cost_remark(best: Network) -> str:
    return f"× the costliest measured training, {words.plural(best.trainings, 'training')} in all"


def _chance(answer: Answer) -> str:
    probability = answer.network.probability
    if not answer.choice.met:
        return "the target is not met"
    return "" if probability is None else f"{words.percent(probability, digits=0)} meet the target"


def comparison(answer: Answer) -> str:
    """How much smaller this is than the network one would usually prune; empty where nothing compares."""
    matching = answer.choice.matching
    if matching is None or matching.times_smaller < 1.005:
        return ""
    return (
        f"The smallest network that meets the target unpruned (depth {words.size(matching.depth)}, width "
        f"{words.size(matching.width)}) would still be {matching.times_smaller:.2f} times this size when pruned as "
        "far as the target allows."
    )

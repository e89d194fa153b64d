"""The answers that a page looks up: one choice for each of many target errors."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from prunecast.choice import DEFAULT_SIZES, Choice, Measure, Network, ceiling, choose_each, quantile
from prunecast.laws import Fit
from prunecast.laws.uncertainty import COVERAGE
from prunecast.report import words
from prunecast.wording import amount as share
from prunecast.wording import unit

MOST = 160
"""How many targets a page holds for one number of examples."""
STEPS = ((2.0, 0.02), (5.0, 0.05), (10.0, 0.1))
"""Steps of the targets' first digits: up to 2 by 0.02, up to 5 by 0.05, up to 10 by 0.1; none over 2%."""
HIGHEST = 0.9
"""Targets go up to this share of ε↑."""
HOPELESS = 1e-9
"""A target that nothing meets, whose answer is the network of least error."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A choice with its words, ready to be shown."""

    target: float
    choice: Choice
    fit: Fit

    @property
    def network(self) -> Network:
        """The network chosen."""
        return self.choice.answer

    @property
    def shown(self) -> str:
        """The target as it is written, with all of its digits."""
        return f"{self.target:.4g}"


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


def promised(fit: Fit, best: Network, confidence: float) -> float:
    """The error that new trainings of a network keep to with this probability; at one half, the one to expect."""
    share = quantile(fit, confidence) / quantile(fit, (1 + COVERAGE) / 2)
    return float(best.expected_error * (best.expected_error / best.interval[0]) ** share)


def around(error: float) -> tuple[float, float]:
    """The last number of four digits that lies below an error, and the one after it."""
    unit = 10.0 ** (int(np.floor(np.log10(error))) - 3)
    above = int(np.ceil(error * (1 - 1e-6) / unit))
    return float(f"{(above - 1) * unit:.4g}"), float(f"{above * unit:.4g}")


def answers(
    fit: Fit,
    *,
    minimise: str = "stored",
    num_examples: float | None = None,
    sizes: str = DEFAULT_SIZES,
    confidence: float = 0.5,
    most: int = MOST,
) -> list[Answer]:
    """One choice for each target, from one that nothing meets to nearly ε↑ or chance; the second is the least met."""
    ask = partial(
        choose_each, fit, minimise=minimise, num_examples=num_examples, sizes=sizes, confidence=confidence
    )
    ends = around(promised(fit, ask([HOPELESS])[0].answer, confidence))
    wanted = [
        *ends,
        *(target for target in targets(ends[1], ceiling(fit) * HIGHEST, most) if target > ends[1]),
    ]
    return [
        Answer(target=target, choice=choice, fit=fit)
        for target, choice in zip(wanted, ask(wanted), strict=True)
    ]


def named(answer: Answer, depth: float, width: float) -> str:
    """A network by the axes that its table tells, as `choose` names it."""
    known = {"depth": depth, "width": width}
    said = [
        f"{axis} {words.size(value)}" for axis, value in known.items() if axis in answer.choice.naming.axes
    ]
    return ", ".join(said) or "the measured network"


def headline(answer: Answer) -> str:
    """What to do, in a sentence; where nothing meets the target, what comes closest."""
    best = answer.network
    size = named(answer, best.depth, best.width)
    density = f"to density {words.density(best.density)}"
    if not answer.choice.met:
        return f"Nothing here meets it. Closest is {size}, {f'pruned {density}' if best.level else 'not pruned'}."
    return f"Train {size}, and {f'prune it {density}' if best.level else 'do not prune it'}."


def facts(answer: Answer) -> list[tuple[str, str, str]]:
    """Name, value and remark of everything an answer holds."""
    best, question = answer.network, answer.choice.question
    low, high = best.interval
    how = "measured" if best.source == "measured" else "by the law"
    if best.source == "measured" and answer.choice.met != (best.error <= answer.target):
        how = f"measured; about {words.error(best.expected_error)} is expected of a new training"
    source = f"{words.error(best.unpruned_error)} unpruned, {best.unpruned_source}"
    rows = [
        ("Network", named(answer, best.depth, best.width), source),
        ("Density", words.density(best.density), words.plural(best.level, "level") + " of 20%"),
        ("Size", amount(answer), _size_remark(answer)),
        ("Error", words.error(best.error), how),
        ("95% of new trainings", f"{words.error(low)} – {words.error(high)}", _chance(answer)),
        ("Training cost", words.number(best.training_cost), _cost_remark(best)),
    ]
    if question.minimise == "multiply-adds" and best.multiply_adds is not None:
        rows.insert(3, ("Multiply-adds", words.count(best.multiply_adds), "an image, zeros skipped"))
    return rows


def amount(answer: Answer) -> str:
    """The parameters to store, or a share where the table tells no counts."""
    stored, said = answer.network.stored_parameters, answer.choice.naming
    return words.count(stored) if said.largest is None else share(said, stored)


def _size_remark(answer: Answer) -> str:
    best, said = answer.network, answer.choice.naming
    if said.largest is not None:
        return unit(said, Measure.STORED)
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
        f"The smallest network that meets the target unpruned ({named(answer, matching.depth, matching.width)}) "
        f"would still be {matching.times_smaller:.2f} times this size when pruned as far as the target allows."
    )

"""What a reader of an answer should know beside its numbers."""

from collections.abc import Iterator

import numpy as np

from prunecast.choice.answer import Network, Question
from prunecast.choice.beyond import beyond
from prunecast.choice.density import least_log_error
from prunecast.choice.further import remedy
from prunecast.choice.options import Options, measured_by
from prunecast.choice.search import Search
from prunecast.choice.sizes import Sizes
from prunecast.choice.source import VALIDATION
from prunecast.laws import Fit
from prunecast.laws.predict import PLACE, unvaried
from prunecast.laws.reach import SLACK
from prunecast.laws.result import LEFT_OUT, Configuration
from prunecast.laws.words import SYMBOLS

ACROSS = ("phi", "psi", "nu", "dip", "dip_ratio")
"""What makes curves of sizes differ: a curve that was measured does not rest on them."""
NAMES = {"eq1": "Eq. 1", "eq2": "Eq. 2", "dip": "the dip law"}


def notes(
    search: Search, candidates: Sizes, options: Options, best: Network, met: bool, other: Network | None
) -> Iterator[str]:
    """Why a target is impossible, where measurement beats the law, what is predicted, extrapolated or not counted."""
    if not met:
        yield _impossible(search, candidates)
        if other is not None:
            yield f"Beyond what was measured, {remedy(other, search.question, search.naming)}."
    elif best.source == "measured":
        yield from _measured(search, candidates, options, best)
    yield from beyond(search.fit, search.question, best)
    yield from _guess(search.fit, best)
    yield from _law(search.fit)
    if best.unpruned_source == "predicted" and search.fit.dense is not None:
        miss = search.fit.dense.deviation
        yield (
            f"Nobody trained this size: its unpruned error of {best.unpruned_error:.4f} is predicted by the dense law "
            f"(off by {miss:.1%} on sizes left out), which widens the interval."
        )
    yield from unvaried(search.fit, {name: [getattr(best, name)] for name in PLACE})
    if search.fit.dense is None:
        yield "There are too few configurations for a law of the unpruned error, so only measured sizes are candidates."
    yield from _settings(search, best)


def _guess(fit: Fit, best: Network) -> Iterator[str]:
    """A guess, where the answer rests on parameters that the data leave open.

    Between measured points of its own curve an answer is what these points say, whatever ε↑ or p′ are; between the
    curves of other sizes it rests on what makes these differ too.
    """
    nearest = min(fit.configurations, key=lambda own: _distance(own, best))
    reached = (
        nearest.lowest_density <= best.density * (1 + SLACK) and nearest.highest_error >= best.expected_error
    )
    between = reached and not best.extrapolated
    matter = [
        name for name in fit.undetermined if not between or (name in ACROSS and _distance(nearest, best))
    ]
    if matter:
        symbols = ", ".join(SYMBOLS[name] for name in matter)
        yield f"The data do not determine {symbols}, so take this as a guess; `prunecast fit` says what would."


def _distance(own: Configuration, best: Network) -> float:
    """How far a measured configuration is from a network, in logarithms over all axes; 0 where it is its own."""
    return sum(abs(float(np.log(getattr(own, name) / getattr(best, name)))) for name in PLACE)


def _settings(search: Search, best: Network) -> Iterator[str]:
    fit = search.fit
    if fit.options.get("error") == VALIDATION:
        yield "The choice is made by validation errors, so that the test set stays untouched by it."
    if fit.options.get("too_large") == LEFT_OUT:
        yield "The law was fitted without networks that are too large for their data."
    known = sorted({c.num_examples for c in fit.configurations})
    if len(known) > 1:
        listed = ", ".join(f"{n:,.0f}" for n in known)
        yield f"For {search.question.num_examples:,.0f} training examples (measured: {listed})."
        yield from _other_sizes(search, best)
    if search.counter.note is not None:
        yield search.counter.note


def _other_sizes(search: Search, best: Network) -> Iterator[str]:
    """An answer below every density that was measured with its number of examples."""
    every = [(c.num_examples, c.lowest_density) for c in search.fit.configurations]
    examples, reached = np.array(every, dtype=float).T
    own = reached[np.isclose(examples, search.question.num_examples)]
    lowest = own.min() if len(own) else 0.0
    if reached.min() * (1 - 1e-9) <= best.density < lowest * (1 - 1e-9):
        yield (
            f"With {search.question.num_examples:,.0f} examples nothing was pruned below density {lowest:.3g}: what "
            "happens there rests on the curves of other dataset sizes."
        )


def _lowest(search: Search, candidates: Sizes) -> float:
    return float(np.exp(least_log_error(search.fit, candidates)))


def out_of_reach(question: Question) -> str:
    """That nothing meets the target, with the bounds that were asked for."""
    budget = " within the budget" if question.max_parameters or question.max_training else ""
    sure = "" if question.confidence == 0.5 else f" with probability {question.confidence:g}"
    return f"No network of these sizes gets to {question.target_error:g}{sure}{budget}"


def _impossible(search: Search, candidates: Sizes) -> str:
    words = f"{out_of_reach(search.question)}: the answer is the least error possible"
    if search.fit.law == "dip":
        return f"{words}, by the law or as measured."
    lowest = float(candidates.unpruned.min())
    return f"{words}; {NAMES[search.fit.law]} never goes below the unpruned error, here {lowest:.4f} at best."


def _measured(search: Search, candidates: Sizes, options: Options, best: Network) -> Iterator[str]:
    """A measured network that the law would not have promised."""
    target, name = search.question.target_error, NAMES[search.fit.law]
    if target is None:
        yield "This network was measured; the law alone promises nothing better within the budget."
        return
    promised = options[~options.row]
    if len(promised):
        measure, said = search.question.minimise, search.naming
        size = said.amount(float(measured_by(measure, promised)[0]))
        yield (
            f"This network was measured and is smaller than anything the law promises (by {name}: "
            f"{size} {said.unit(measure)})."
        )
        return
    why = "" if search.fit.law == "dip" else ", as it never goes below the unpruned error; the law `dip` does"
    yield (
        f"By {name} this target is impossible (its least error is {_lowest(search, candidates):.4f}{why}); "
        + (
            "but it was measured, so the answer is what was measured."
            if best.error <= target
            else "but the rows measured along this network's curve let a new training be expected to meet it."
        )
    )


def _law(fit: Fit) -> Iterator[str]:
    """Which law answers, where it is not Eq. 2 or where another one predicts clearly better."""
    for note in fit.notes:
        if note.kind == "preference" and "--law" in note.text:  # named only where it is clearly better
            yield note.text
        elif note.kind == "preference" and fit.law == "dip":
            yield f"Answered by the law that follows the dip. {note.text}"

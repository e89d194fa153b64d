"""The motivating question of the paper: which network to prune, and how far."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prunecast.choice.answer import Choice, Matching, Question
from prunecast.choice.checks import check, check_plateau
from prunecast.choice.counts import counter
from prunecast.choice.density import Curves
from prunecast.choice.further import further, remedy
from prunecast.choice.network import network
from prunecast.choice.notes import notes
from prunecast.choice.options import Options, by_law, join, measured_by, measured_rows
from prunecast.choice.search import Search
from prunecast.choice.sizes import DEFAULT_REACH, Sizes, examples, sizes
from prunecast.choice.source import as_fit, quantity
from prunecast.choice.within import allowed, hopeful
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.table import Table

RUNNERS_UP, APART = 5, 1.5
SAME_DENSITY = 1e-6
"""Relative; a density that was asked for and one that was measured are the same within this."""


def choose(
    source: Fit | Table | str | Path,
    *,
    target_error: float | None = None,
    max_parameters: float | None = None,
    max_training: float | None = None,
    minimise: str = "stored",
    confidence: float = 0.5,
    num_examples: float | None = None,
    sizes: str = DEFAULT_REACH,
    depth: float | None = None,
    width: float | None = None,
    density: float | None = None,
    law: str = "auto",
) -> Choice:
    """The network with the fewest parameters whose error is at most the target, or with the least error in budget.

    `source` is a fitted law, a table to fit one to, or the file of either. `max_parameters` is counted in the measure
    that is minimised, `max_training` in trainings of the costliest measured network. The target is met with probability
    `confidence`; one half means that the estimate itself meets it. `sizes` is measured, within (also sizes between the
    measured ones, whose unpruned error the dense law predicts) or around (also sizes beyond them); where only one of
    these would do, a note names it. A `depth`, `width` or `density` that is given is the only one considered; all three
    name one network.
    """
    fitted = as_fit(source, law)
    check_plateau(target_error, fitted)
    question = Question(
        target_error=target_error,
        max_parameters=max_parameters,
        max_training=max_training,
        minimise=minimise,
        confidence=confidence,
        num_examples=examples(fitted, num_examples),
        sizes=sizes,
        depth=depth,
        width=width,
        density=density,
    )
    return next(answers(fitted, [question]))


def choose_each(
    fit: Fit,
    target_errors: Iterable[float],
    *,
    minimise: str = "stored",
    confidence: float = 0.5,
    num_examples: float | None = None,
    sizes: str = DEFAULT_REACH,
) -> list[Choice]:
    """As `choose` for many targets; what does not depend on the target is worked out once."""
    at = examples(fit, num_examples)
    same = Question(minimise=minimise, confidence=confidence, num_examples=at, sizes=sizes)
    return list(answers(fit, [replace(same, target_error=target) for target in target_errors]))


def answers(fit: Fit, questions: Sequence[Question]) -> Iterator[Choice]:
    """Answer questions that differ in their bounds only: all are about the same networks."""
    how, first = counter(fit), questions[0]
    for question in questions:
        check(question, fit)
    if how.family is not None and first.depth is not None and not float(first.depth).is_integer():
        raise PrunecastError(f"the depth of a {how.family} is a whole number of layers, not {first.depth:g}")
    named = {"only_depth": first.depth, "only_width": first.width}
    found = sizes(fit, how, first.num_examples, first.sizes, **named)
    candidates = hopeful(fit, allowed(fit, found, first))
    rows = measured_rows(fit, candidates)
    if first.density is not None:
        rows = rows[np.isclose(rows.density, first.density, rtol=SAME_DENSITY)]
    whole = by_law(fit, candidates, np.ones(len(candidates)))
    curves = Curves.of(fit, candidates) if fit.law == "dip" and len(questions) > 1 else None
    for question in questions:
        search = Search(fit=fit, counter=how, question=question, candidates=candidates, curves=curves)
        yield _answer(search, candidates, rows, whole)


def _answer(search: Search, candidates: Sizes, rows: Options, whole: Options) -> Choice:
    """Rank what the law promises beside what was measured."""
    question = search.question
    promised, met = _ranked(search, candidates, rows)
    best = network(search, promised, 0)
    other = None if met else further(search)
    compared = met and question.target_error and question.density is None
    matching = _matching(search, whole, rows, promised) if compared else None
    return Choice(
        law=search.fit.law,
        table=search.fit.origin.table,
        metric=quantity(search.fit),
        question=question,
        met=met,
        answer=best,
        runners_up=tuple(network(search, promised, i) for i in _runners_up(promised)),
        matching=matching,
        further=other,
        notes=tuple(notes(search, candidates, promised, best, met, other)),
        naming=search.naming,
    )


def _ranked(search: Search, candidates: Sizes, rows: Options) -> tuple[Options, bool]:
    """Networks from the best on, and whether they meet the target; if none does, those of least error."""
    affordable = rows[search.affordable(rows)]
    if search.question.target_error is not None:
        meeting = affordable[search.meets(affordable)] if len(affordable) else affordable
        options = join(search.for_target(candidates), meeting)
        if len(options):
            return options[np.argsort(measured_by(search.question.minimise, options), kind="stable")], True
    options = join(search.for_least_error(candidates), affordable)
    if not len(options):
        raise PrunecastError(_unaffordable(search))
    promised = np.round(options.promised(search.fit, search.question.confidence), 9)
    order = np.lexsort((measured_by(search.question.minimise, options), promised))
    return options[order], search.question.target_error is None


def _unaffordable(search: Search) -> str:
    words = f"no network of these sizes fits the budget: {search.least_budget()}; allow more"
    budgets = replace(search.question, target_error=None)
    other = further(replace(search, question=budgets))
    return (
        words
        if other is None
        else f"{words}, or go beyond what was measured: {remedy(other, budgets, search.naming)}"
    )


def _runners_up(options: Options) -> list[int]:
    """The next best that differ by depth or by half in width, the best of the measured sizes always among them."""
    depth, log_width = options.sizes.depth, np.log(options.sizes.width)
    measured = np.flatnonzero(options.sizes.measured)[:1]
    listed = [0, *(int(index) for index in measured if index > 0)]
    for index in range(1, len(options)):
        if len(listed) > RUNNERS_UP:
            break
        apart = (depth[listed] != depth[index]) | (
            np.abs(log_width[listed] - log_width[index]) > np.log(APART)
        )
        if apart.all():
            listed.append(index)
    return sorted(listed[1:])


def _matching(search: Search, whole: Options, rows: Options, promised: Options) -> Matching | None:
    """The smallest network that meets the target unpruned, pruned as far as the target allows."""
    question = search.question
    assert question.target_error is not None
    meets = np.flatnonzero(search.meets(whole))
    if not len(meets):
        return None
    size = measured_by(question.minimise, whole)
    best = meets[np.argmin(size[meets])]
    depth, width = whole.sizes.depth[best], whole.sizes.width[best]
    pruned = join(*(own[(own.sizes.depth == depth) & (own.sizes.width == width)] for own in (promised, rows)))
    smallest = float(measured_by(question.minimise, pruned[search.meets(pruned)]).min(initial=size[best]))
    return Matching(
        depth=float(depth),
        width=float(width),
        unpruned_error=float(whole.sizes.told[best]),
        unpruned_size=float(size[best]),
        pruned_size=smallest,
        times_smaller=smallest / float(measured_by(question.minimise, promised)[0]),
    )

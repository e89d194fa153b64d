"""The motivating question of the paper: which network to prune, and how far."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from prunecast.choice.answer import Choice, Matching, Network, Question
from prunecast.choice.checks import check, check_plateau
from prunecast.choice.counts import Counter, counter
from prunecast.choice.density import Curves
from prunecast.choice.notes import notes
from prunecast.choice.options import (
    Options,
    by_law,
    join,
    measured_by,
    measured_rows,
    quantile,
)
from prunecast.choice.search import Search
from prunecast.choice.sizes import Sizes, examples, hopeful, inside, sizes
from prunecast.choice.source import as_fit, quantity
from prunecast.errors import PrunecastError
from prunecast.laws import Fit
from prunecast.laws.points import Floats
from prunecast.laws.reach import below
from prunecast.laws.uncertainty import COVERAGE
from prunecast.spec.presets import RECIPES
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
    sizes: str = "around",
    depth: float | None = None,
    width: float | None = None,
    density: float | None = None,
    law: str = "auto",
) -> Choice:
    """The network with the fewest parameters whose error is at most the target, or with the least error in budget.

    `source` is a fitted law, a table to fit one to, or the file of either. `max_parameters` is counted in the measure
    that is minimised, `max_training` in trainings of the costliest measured network. The target is met with probability
    `confidence`; one half means that the estimate itself meets it. `sizes` is measured, within (also sizes between the
    measured ones, whose unpruned error the dense law predicts) or around (also sizes beyond them). A `depth`, `width`
    or `density` that is given is the only one considered; all three name one network.
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
    sizes: str = "around",
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
    free = first.depth is None and first.width is None
    candidates = hopeful(fit, inside(fit, found, first.sizes) if free else found)
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
    best = _network(search, promised, 0)
    compared = met and question.target_error and question.density is None
    matching = _matching(search, whole, rows, promised) if compared else None
    return Choice(
        law=search.fit.law,
        table=search.fit.origin.table,
        metric=quantity(search.fit),
        question=question,
        met=met,
        answer=best,
        runners_up=tuple(_network(search, promised, i) for i in _runners_up(promised)),
        matching=matching,
        notes=tuple(notes(search, candidates, promised, best, met)),
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
        raise PrunecastError(
            "no network of these sizes fits the budget, not even the smallest; allow more parameters or training"
        )
    promised = np.round(options.promised(search.fit, search.question.confidence), 9)
    order = np.lexsort((measured_by(search.question.minimise, options), promised))
    return options[order], search.question.target_error is None


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


def _network(search: Search, options: Options, index: int) -> Network:
    one = options[np.array([index])]
    size, fit, target = one.sizes, search.fit, search.question.target_error
    log_error, reach = float(one.log_error[0]), quantile(fit, (1 + COVERAGE) / 2) * float(one.spread[0])
    top = np.inf if fit.metric == "loss" else 1.0
    level = int(one.level[0])
    operations = float(size.counts.multiply_adds[0] * one.density[0])
    recipe = RECIPES.get(fit.origin.recipe)
    return Network(
        depth=float(size.depth[0]),
        width=float(size.width[0]),
        num_examples=float(size.num_examples[0]),
        density=float(one.density[0]),
        level=level,
        error=float(np.exp(one.told[0])),
        interval=(float(np.exp(log_error - reach)), float(min(np.exp(log_error + reach), top))),
        probability=None if target is None else float(one.probability(fit, float(np.log(target)))[0]),
        source="measured" if one.row[0] else "law",
        nonzero_parameters=_whole(one.nonzero, search.counter),
        stored_parameters=_whole(one.nonzero + size.counts.fixed, search.counter),
        paper_size=float(measured_by("paper", one)[0]),
        multiply_adds=None if np.isnan(operations) else operations,
        unpruned_error=float(size.told[0]),
        unpruned_source="measured" if size.measured[0] else "predicted",
        expected_unpruned_error=float(size.unpruned[0]),
        extrapolated=bool(size.outside[0] or below(fit, one.density)[0]),
        trainings=level + 1,
        training_cost=float(search.training_cost(one)[0]),
        network_epochs=None if recipe is None else (level + 1) * float(recipe.epochs),
    )


def _whole(count: Floats, how: Counter) -> float:
    return round(float(count[0])) if how.exact else float(count[0])


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

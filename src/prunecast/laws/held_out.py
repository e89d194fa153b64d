"""One evaluation engine: fit a form to some configurations, predict others, pool the deviations."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from prunecast.laws.catalogue import LAWS, build, starts
from prunecast.laws.forms import Form, bounds
from prunecast.laws.judge import relative
from prunecast.laws.measured import size_order
from prunecast.laws.points import Floats, Integers, Points
from prunecast.laws.solver import solve

STARTS, FOLDS, TRIES = 24, 10, 4
SEARCHED_ROWS, FINALISTS = 600, 3


@dataclass(frozen=True, kw_only=True)
class Split:
    """Configurations to fit and configurations to predict."""

    fitted: Integers
    predicted: Integers


def in_sample(points: Points) -> list[Split]:
    """Fit and predict everything."""
    everything = np.arange(points.configurations)
    return [Split(fitted=everything, predicted=everything)]


def configurations_out(points: Points, seed: int = 0, folds: int = FOLDS) -> list[Split]:
    """Leave configurations out in turn: one at a time up to `folds` of them, in that many random groups beyond."""
    count = points.configurations
    order = np.random.default_rng(seed).permutation(count)
    return [_without(count, np.sort(group)) for group in np.array_split(order, min(count, folds))]


def large_out(points: Points) -> list[Split]:
    """Fit the smaller half of the networks, predict the larger half."""
    order = size_order(points)
    sizes = points.weights[order]
    edge = sizes[(len(order) - 1) // 2]
    return [_without(points.configurations, np.sort(order[sizes > edge]))]


def sizes_out(points: Points) -> list[Split]:
    """Leave each dataset size out in turn."""
    sizes = np.unique(points.num_examples)
    count = points.configurations
    return [_without(count, np.flatnonzero(points.num_examples == size)) for size in sizes]


def largest_size_out(points: Points) -> list[Split]:
    """Fit the smaller datasets, predict the largest."""
    return sizes_out(points)[-1:]


def _without(count: int, predicted: Integers) -> Split:
    return Split(fitted=np.setdiff1d(np.arange(count), predicted), predicted=predicted)


def search(form: Form, points: Points, seed: int = 0) -> Floats:
    """The best parameters from random starts over the bounds; large tables are searched on a part of their rows."""
    lower, upper = bounds(form)
    spread = np.random.default_rng(seed).uniform(lower, upper, (STARTS, len(lower)))
    part = points.rows(np.arange(len(points)) % max(1, len(points) // SEARCHED_ROWS) == 0)
    found = solve(form, part, spread)
    finalists = found.theta[np.argsort(found.cost)[:FINALISTS]]
    best = solve(form, points, finalists)
    return np.asarray(best.theta[int(best.cost.argmin())])


def deviations(
    form: Form, points: Points, metric: str, trials: Iterable[Iterable[Split]], seed: int = 0
) -> list[Floats]:
    """δ of every predicted row for each of some lists of splits; what is a law of a table is built anew each time."""
    if form.name in LAWS:
        return [evaluate_law(form.name, points, metric, splits, seed) for splits in trials]
    start = search(form, points, seed)
    return [evaluate(form, points, splits, start) for splits in trials]


def evaluate_law(law: str, points: Points, metric: str, splits: Iterable[Split], seed: int = 0) -> Floats:
    """As `evaluate`, with the law built anew for what is fitted: it has the parameters that those rows can tell."""
    return np.concatenate([_law_held_out(law, points, metric, split, seed) for split in splits])


def _law_held_out(law: str, points: Points, metric: str, split: Split, seed: int) -> Floats:
    if not len(split.fitted):
        return np.full(len(points.of(split.predicted)), np.nan)
    form = build(law, points.of(split.fitted), metric)
    found = solve(form, points.of(split.fitted), starts(form, points.of(split.fitted), seed)[:TRIES])
    return _held_out(form, points, split, found.theta[int(found.cost.argmin())])


def evaluate(form: Form, points: Points, splits: Iterable[Split], start: Floats) -> Floats:
    """δ of every predicted row, pooled over the splits; a split too small to fit counts as missed (NaN)."""
    return np.concatenate([_held_out(form, points, split, start) for split in splits])


def _held_out(form: Form, points: Points, split: Split, start: Floats) -> Floats:
    predicted = points.of(split.predicted)
    fitted = points.of(split.fitted) if len(split.fitted) else None
    if fitted is None or len(fitted) <= len(form.parameters):
        return np.full(len(predicted), np.nan)
    theta = solve(form, fitted, start[None]).theta
    return relative(form.log_error(theta, predicted)[0], predicted)

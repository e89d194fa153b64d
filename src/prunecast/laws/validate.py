"""How well laws and rival forms predict configurations they were not fitted to, and which law the data prefer."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import overload

import numpy as np
import pandas as pd

from prunecast.display import Displayable
from prunecast.errors import PrunecastError
from prunecast.laws.dense import DenseLaw, fit_dense
from prunecast.laws.deviations import Deviation, deviation, likelihood_shares, relative
from prunecast.laws.law import (
    DEFAULT_LAW,
    Form,
    bounds,
    build_form,
    selectable_laws,
    starts,
)
from prunecast.laws.points import Floats, Integers, Points, measured, size_order
from prunecast.laws.rivals import Rival, rivals
from prunecast.laws.solver import solve, solve_parts
from prunecast.metric import Metric
from prunecast.table import Table, as_table

STARTS, FOLDS, TRIES = 24, 10, 4
MOST = 2 / 3
"""A fit to more than this share of the points ends near the fit to all of them."""
SEARCHED_ROWS, FINALISTS = 600, 3
LEAST_CONFIGURATIONS = 4
PREFERENCE_FOLDS, MOST_ROWS = 5, 50_000
"""Every fit leaves out so many groups of configurations in turn, unless the table has more rows than this."""
CLEARLY_BETTER = 0.9
"""A law is preferred if its deviation is below this share of the other's."""
LEAST_WEIGHT, ABOUT_AS_LIKELY = 0.02, 0.2
"""Laws with less than the first share of the likelihood do not count. A law is about as good as the likeliest if it has
this share of its likelihood."""


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
    """Leave configurations out in turn: one at a time, or in `folds` random groups if there are more."""
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


def held_out_deviations(
    rival: Rival, points: Points, metric: str, trials: Iterable[Iterable[Split]], seed: int = 0
) -> list[Floats]:
    """δ of every predicted row for each of some lists of splits."""
    lists = [list(splits) for splits in trials]
    every = [split for splits in lists for split in splits]
    if rival.law is not None:
        found = iter(_law_deviations(rival.law, points, metric, every, seed))
    else:
        start = search(rival.form, points, seed)[None]
        found = iter(_deviations([rival.form] * len(every), points, every, [start] * len(every)))
    return [np.concatenate(list(islice(found, len(splits)))) for splits in lists]


def law_deviations(law: str, points: Points, metric: str, splits: Iterable[Split], seed: int = 0) -> Floats:
    """δ of every predicted row, with the law rebuilt for each part that is fitted."""
    return np.concatenate(_law_deviations(law, points, metric, list(splits), seed))


def _law_deviations(
    law: str, points: Points, metric: str, splits: Sequence[Split], seed: int
) -> list[Floats]:
    """A part with most of the points is searched near the optimum of all points, another one from several starts.

    Where that optimum is at a bound, the points leave parameters open, and the part is searched from all of these.
    """
    whole = build_form(law, points, metric)
    everything = np.ones((1, len(points)), dtype=bool)
    (best,) = solve_parts([whole], points, everything, [starts(whole, seed)[:TRIES]])
    lower, upper = bounds(whole)
    inside = bool(((lower < best) & (best < upper)).all())
    forms, begin = [], []
    for split in splits:
        part = points.of(split.fitted) if len(split.fitted) else points
        form = build_form(law, part, metric)
        guesses, names = starts(form, seed)[:TRIES], [parameter.name for parameter in form.parameters]
        if len(part) > MOST * len(points) and all(map(whole.has, names)):
            near = best[[whole.index(name) for name in names]]
            guesses = np.stack([*(guesses[:1] if inside else guesses), near])
        begin.append(guesses)
        forms.append(form)
    return _deviations(forms, points, splits, begin)


def form_deviations(form: Form, points: Points, splits: Iterable[Split], start: Floats) -> Floats:
    """δ of every predicted row, pooled over the splits."""
    splits = list(splits)
    count = len(splits)
    return np.concatenate(_deviations([form] * count, points, splits, [start[None]] * count))


def _deviations(
    forms: Sequence[Form], points: Points, splits: Sequence[Split], begin: Sequence[Floats]
) -> list[Floats]:
    """δ of the rows that each split predicts; NaN if it has too few rows to fit."""
    members = np.array([np.isin(points.configuration, split.fitted) for split in splits])
    enough = [index for index, form in enumerate(forms) if members[index].sum() > len(form.parameters)]
    solved = solve_parts([forms[i] for i in enough], points, members[enough], [begin[i] for i in enough])
    theta = dict(zip(enough, solved, strict=True))
    found = []
    for index, split in enumerate(splits):
        predicted = points.of(split.predicted)
        if index in theta:
            found.append(relative(forms[index].log_error(theta[index][None], predicted)[0], predicted))
        else:
            found.append(np.full(len(predicted), np.nan))
    return found


def held_out_rms(points: Points, metric: str, seed: int = 0) -> dict[str, float]:
    """The rms deviation of each law on configurations left out; empty if they are too few or the table is large."""
    if points.configurations < LEAST_CONFIGURATIONS or len(points) > MOST_ROWS:
        return {}
    splits = configurations_out(points, seed, PREFERENCE_FOLDS)
    found = {}
    for law in selectable_laws():
        with contextlib.suppress(PrunecastError):  # a law that has no number for these points
            delta = law_deviations(law, points, metric, splits, seed)
            found[law] = float(np.sqrt((delta**2).mean()))
    return {law: rms for law, rms in found.items() if np.isfinite(rms)}


def law_weights(rms: dict[str, float], configurations: int) -> dict[str, float]:
    """The weight of each law in an answer: its share of the likelihood of left-out configurations.

    Laws with tiny weights are dropped.
    """
    shares = likelihood_shares(rms, configurations)
    kept = {name: share for name, share in shares.items() if share >= LEAST_WEIGHT}
    return {name: share / sum(kept.values()) for name, share in kept.items()}


def leading_law(weights: dict[str, float]) -> str:
    """The first law, in the order in which they are registered, that is about as likely as the likeliest."""
    enough = ABOUT_AS_LIKELY * max(weights.values(), default=0.0)
    return next((name for name, weight in weights.items() if weight >= enough), DEFAULT_LAW)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one form does on one table."""

    name: str
    """the law's name"""
    title: str
    """what the law is called in output"""
    given_unpruned: bool
    """whether the law is given the unpruned error of the configuration it predicts"""
    parameters: int
    """how many parameters were fitted"""
    in_sample: Deviation
    """the deviation of a fit to all rows"""
    configurations_out: Deviation
    """the deviation on configurations left out of the fit"""
    large_out: Deviation
    """the deviation on the larger half of the networks, fitted to the smaller half"""


SPLITS = ("in_sample", "configurations_out", "large_out")
"""The deviations of a score."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison(Displayable, Sequence[Score]):
    """Scores of the laws and their rivals on one table, best first in each track."""

    table: str
    """the name of the table"""
    metric: Metric
    """what its column `error` holds"""
    scores: tuple[Score, ...]
    """one for each law, those that are given the unpruned error first"""

    def __len__(self) -> int:
        return len(self.scores)

    @overload
    def __getitem__(self, index: int) -> Score: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Score, ...]: ...
    def __getitem__(self, index: int | slice) -> Score | tuple[Score, ...]:
        """One score, or some of them."""
        return self.scores[index]

    def __repr__(self) -> str:
        """One line for the prompt."""
        return f"<Comparison of {len(self)} laws on {self.table}; best: {self.scores[0].title}>"

    def __str__(self) -> str:
        """The tables that the command line prints."""
        return self.summary()

    @property
    def frame(self) -> pd.DataFrame:
        """One row per law: its name, track and number of parameters, and mean, std and rms of each deviation."""
        rows = [
            {
                "law": score.name,
                "title": score.title,
                "given_unpruned": score.given_unpruned,
                "parameters": score.parameters,
                **{
                    f"{split}_{name}": getattr(getattr(score, split), name)
                    for split in SPLITS
                    for name in ("mean", "std", "rms")
                },
            }
            for score in self.scores
        ]
        return pd.DataFrame(rows)


def compare(table: Table | str | Path | pd.DataFrame, seed: int = 0) -> Comparison:
    """Rank the laws and their rivals, in each track by the deviation on left-out configurations.

    Forms that are given the unpruned error of the configuration they predict come first. The default law is also in
    the other track, with an unpruned error that the dense law predicts from the configurations it was fitted to.

    Args:
        table: a table, or a path, the name of a shipped table or a DataFrame to read one from.
        seed: of the random groups of configurations left out, and of the starts of each search.

    Returns:
        A sequence of scores that prints as tables; `frame` is one row per law.

    Raises:
        PrunecastError: the table cannot be read, or has fewer than three configurations.
    """
    table = as_table(table)
    points = measured(table).points
    if points.configurations < 3:
        raise PrunecastError(
            f"{table.source}: too few configurations ({points.configurations}) to leave any out; compare needs three"
        )
    found = rivals(points, table.metric)
    scores = [_score(rival, points, table.metric, seed) for rival in found]
    default = next(rival for rival in found if rival.law == DEFAULT_LAW)
    without = _with_dense_law(default, points, table.chance, seed)
    scores += [without] if without is not None else []
    ranked = sorted(scores, key=lambda score: (not score.given_unpruned, _missed(score)))
    return Comparison(table=table.source, metric=table.metric, scores=tuple(ranked))


def _missed(score: Score) -> float:
    missed = score.configurations_out.rms
    return missed if np.isfinite(missed) else np.inf


def _score(rival: Rival, points: Points, metric: str, seed: int) -> Score:
    trials = (in_sample(points), configurations_out(points, seed), large_out(points))
    inside, configurations, large = held_out_deviations(rival, points, metric, trials, seed)
    return Score(
        name=rival.name,
        title=rival.title,
        given_unpruned=rival.given_unpruned,
        parameters=len(rival.form.parameters),
        in_sample=deviation(inside),
        configurations_out=deviation(configurations),
        large_out=deviation(large),
    )


def _with_dense_law(rival: Rival, points: Points, chance: float | None, seed: int) -> Score | None:
    """A law with ε_np from the dense law; None if there are too few configurations for the dense law."""
    whole = fit_dense(points, chance)
    if whole is None:
        return None
    start = search(rival.form, points, seed)[None]

    def judged(splits: Iterable[Split]) -> Deviation:
        deltas = [_through_dense_law(rival.form, points, split, start, chance, whole) for split in splits]
        return deviation(np.concatenate(deltas))

    return Score(
        name=f"{rival.name}+dense",
        title=f"{rival.title}, unpruned error from the dense law",
        given_unpruned=False,
        parameters=len(rival.form.parameters) + whole.free,
        in_sample=judged(in_sample(points)),
        configurations_out=judged(configurations_out(points, seed)),
        large_out=judged(large_out(points)),
    )


def _through_dense_law(
    form: Form, points: Points, split: Split, start: Floats, chance: float | None, whole: DenseLaw
) -> Floats:
    """δ of the rows that a split predicts, with ε_np from the dense law of the rows that it fits."""
    fitted, predicted = points.of(split.fitted), points.of(split.predicted)
    most = len(split.fitted) > MOST * points.configurations
    dense = fit_dense(fitted, chance, near=whole if most else None)
    if dense is None:
        return np.full(len(predicted), np.nan)
    theta = solve(form, fitted, start).theta
    guessed = dense.predict(predicted.weights, predicted.num_examples, predicted.depth)
    return relative(form.log_error(theta, replace(predicted, unpruned=guessed))[0], predicted)

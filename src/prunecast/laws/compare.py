"""Rank the law and its rivals, in sample and on configurations they have not seen."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws.dense import fit_dense
from prunecast.laws.forms import Form
from prunecast.laws.held_out import Split, configurations_out, deviations, in_sample, large_out, search
from prunecast.laws.judge import Deviation, deviation, relative
from prunecast.laws.measured import measured
from prunecast.laws.points import Floats, Points
from prunecast.laws.rivals import Rival, rivals
from prunecast.laws.solver import solve
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class Score:
    """How one form does on one table."""

    name: str
    title: str
    given_unpruned: bool
    parameters: int
    in_sample: Deviation
    configurations_out: Deviation
    large_out: Deviation


def compare(table: Table, seed: int = 0) -> list[Score]:
    """Rank Eq. 2, the law `dip` and their rivals, in each track by the deviation on left-out configurations.

    Forms given the unpruned error of the configuration they predict come first; in the other track Eq. 2 stands
    too, with an unpruned error that the dense law predicts from the configurations it was fitted to.
    """
    points = measured(table).points
    if points.configurations < 3:
        raise PrunecastError(
            f"{table.source}: too few configurations ({points.configurations}) to leave any out; compare needs three"
        )
    scores = [_score(rival, points, table.metric, seed) for rival in rivals(points, table.metric)]
    without = _with_dense_law(rivals(points, table.metric)[0], points, table.chance, seed)
    scores += [without] if without is not None else []
    return sorted(scores, key=lambda score: (not score.given_unpruned, _missed(score)))


def _missed(score: Score) -> float:
    missed = score.configurations_out.rms
    return missed if np.isfinite(missed) else np.inf


def _score(rival: Rival, points: Points, metric: str, seed: int) -> Score:
    trials = (in_sample(points), configurations_out(points, seed), large_out(points))
    inside, configurations, large = deviations(rival.form, points, metric, trials, seed)
    return Score(
        name=rival.form.name,
        title=rival.title,
        given_unpruned=rival.given_unpruned,
        parameters=len(rival.form.parameters),
        in_sample=deviation(inside),
        configurations_out=deviation(configurations),
        large_out=deviation(large),
    )


def _with_dense_law(rival: Rival, points: Points, chance: float | None, seed: int) -> Score | None:
    """Eq. 2 with ε_np from the dense law; None where there are too few configurations for that law."""
    whole = fit_dense(points, chance)
    if whole is None:
        return None
    start = search(rival.form, points, seed)
    trials = (in_sample(points), configurations_out(points, seed), large_out(points))
    inside, configurations, large = (
        deviation(np.concatenate(list(_through_dense_law(rival.form, points, splits, start, chance))))
        for splits in trials
    )
    return Score(
        name="eq2+dense",
        title="Eq. 2, unpruned error from the dense law",
        given_unpruned=False,
        parameters=len(rival.form.parameters) + whole.free,
        in_sample=inside,
        configurations_out=configurations,
        large_out=large,
    )


def _through_dense_law(
    form: Form, points: Points, splits: Iterable[Split], start: Floats, chance: float | None
) -> Iterator[Floats]:
    for split in splits:
        fitted, predicted = points.of(split.fitted), points.of(split.predicted)
        dense = fit_dense(fitted, chance)
        if dense is None:
            yield np.full(len(predicted), np.nan)
            continue
        theta = solve(form, fitted, start[None]).theta
        guessed = replace(predicted, unpruned=dense.predict(predicted.weights, predicted.num_examples))
        yield relative(form.log_error(theta, guessed)[0], predicted)

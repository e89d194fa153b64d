"""The law compared with other forms, region by region (section 6 and appendix G of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import (
    REGIONS,
    Deviation,
    Floats,
    Integers,
    Points,
    Rival,
    Split,
    by_group,
    configurations_out,
    deviation,
    held_out_deviations,
    in_sample,
    rivals,
)
from prunecast.studies.refits import full_fit
from prunecast.table import Table


@dataclass(frozen=True, kw_only=True)
class FormScore:
    """One form, in sample and on configurations left out, overall and by region of Eq. 2."""

    name: str
    title: str
    given_unpruned: bool
    parameters: int
    in_sample: Deviation
    left_out: Deviation
    in_sample_by_region: dict[str, Deviation]
    left_out_by_region: dict[str, Deviation]


@dataclass(frozen=True, kw_only=True)
class Forms:
    """All forms, the best predictor of left-out configurations first."""

    table: str
    rows_by_region: dict[str, int]
    scores: tuple[FormScore, ...]


def forms(table: Table) -> Forms:
    """Fit every form to all rows and with configurations left out, and judge each region separately."""
    full = full_fit(table)
    points = full.points
    if points.configurations < 3:
        raise PrunecastError(
            f"{table.source}: the study of forms leaves out configurations, so it needs at least three"
        )
    regions = full.regions(points)
    rows = {name: int((regions == index).sum()) for index, name in enumerate(REGIONS)}
    scores = [_score(rival, points, table.metric, regions) for rival in rivals(points, table.metric)]
    best_first = sorted(scores, key=lambda score: score.left_out.rms)
    return Forms(table=table.source, rows_by_region=rows, scores=tuple(best_first))


def _score(rival: Rival, points: Points, metric: str, regions: Integers) -> FormScore:
    trials = in_sample(points), configurations_out(points)
    deltas = held_out_deviations(rival, points, metric, trials)
    inside, outside = (
        _judged(delta, points, splits, regions) for delta, splits in zip(deltas, trials, strict=True)
    )
    return FormScore(
        name=rival.name,
        title=rival.title,
        given_unpruned=rival.given_unpruned,
        parameters=len(rival.form.parameters),
        in_sample=inside[0],
        left_out=outside[0],
        in_sample_by_region=inside[1],
        left_out_by_region=outside[1],
    )


def _judged(
    delta: Floats, points: Points, splits: Sequence[Split], regions: Integers
) -> tuple[Deviation, dict[str, Deviation]]:
    own = np.concatenate([regions[np.isin(points.configuration, split.predicted)] for split in splits])
    return deviation(delta), dict(zip(REGIONS, by_group(delta, own, len(REGIONS)), strict=True))

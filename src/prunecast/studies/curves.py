"""How little determines the law: ε↑ and γ from one curve, the whole law from four (the paper's claims)."""

from dataclasses import dataclass
from itertools import combinations, islice, product

import numpy as np

from prunecast.laws import fit_each
from prunecast.laws.forms import natural
from prunecast.laws.identify import power_law_seen
from prunecast.laws.points import Points
from prunecast.studies.refits import Subject, best_fit, deviations
from prunecast.table import Table

SETS = 30


@dataclass(frozen=True, kw_only=True)
class SingleCurves:
    """ε↑ and γ of Eq. 1 fitted to one curve, against the joint fit."""

    curves: int
    usable: int
    """those whose fit ends inside its bounds: the curves that show all three regions"""
    high_error_off: float | None
    """median |single/joint − 1| of ε↑ over the usable curves"""
    gamma_off: float | None


@dataclass(frozen=True, kw_only=True)
class FewCurves:
    """The whole law from the corners of a rectangle: two depths × two widths, or two sizes of the one axis."""

    curves: int
    sets: int
    mean_sigma: float
    """σ over all rows of the table, mean over the sets"""
    median_sigma: float
    full_sigma: float
    """of the fit to everything"""


def single_curves(table: Table, one: Subject) -> SingleCurves:
    """Eq. 1 on each curve alone."""
    singles = fit_each(table)
    usable = [single for single in singles if not single.at_bound]
    joint = natural(one.form, one.theta)

    def off(name: str, column: int) -> float | None:
        ratios = [abs(single.parameters[name] / joint[column] - 1) for single in usable]
        return float(np.median(ratios)) if ratios else None

    return SingleCurves(
        curves=len(singles),
        usable=len(usable),
        high_error_off=off("high_error", 0),
        gamma_off=off("gamma", 1),
    )


def few_curves(one: Subject, metric: str, *, seed: int = 0) -> FewCurves | None:
    """Fit the law, with what the curves can tell of it, to random rectangles; None where none was measured.

    Curves that never leave their low plateau tell of no law, so a rectangle of such curves alone does not count.
    """
    axes = [axis for axis in one.form.axes if axis != "num_examples"]
    rectangles = _rectangles(one.points, axes) if axes else []
    order = np.random.default_rng(seed).permutation(len(rectangles))
    drawn = (one.points.of(np.sort(rectangles[index])) for index in order)
    chosen = list(islice((corners for corners in drawn if power_law_seen(corners)), SETS))
    if not chosen:
        return None
    fits = [best_fit(one.form.name, corners, metric, seed=seed) for corners in chosen]
    sigma = np.array([deviations(form, theta[None], one.points)[1][0] for form, theta in fits])
    return FewCurves(
        curves=2 ** len(axes),
        sets=len(chosen),
        mean_sigma=float(sigma.mean()),
        median_sigma=float(np.median(sigma)),
        full_sigma=float(one.delta.std()),
    )


def _rectangles(points: Points, axes: list[str]) -> list[tuple[int, ...]]:
    """Configurations at the corners of every rectangle measured with one number of examples."""
    place = {key: index for index, key in enumerate(_keys(points))}
    found = []
    for examples in np.unique(points.num_examples):
        values = [np.unique(getattr(points, axis)[points.num_examples == examples]).tolist() for axis in axes]
        for sides in product(*(combinations(own, 2) for own in values)):
            fixed = {"depth": points.depth[0], "width": points.width[0], "num_examples": examples}
            corners = [fixed | dict(zip(axes, corner, strict=True)) for corner in product(*sides)]
            keys = [(c["depth"], c["width"], c["num_examples"]) for c in corners]
            if all(key in place for key in keys):
                found.append(tuple(place[key] for key in keys))
    return found


def _keys(points: Points) -> list[tuple[float, float, float]]:
    return list(zip(points.depth.tolist(), points.width.tolist(), points.num_examples.tolist(), strict=True))

"""Which law the data prefer, judged by predicting configurations that were left out."""

import numpy as np

from prunecast.laws.catalogue import LAWS, build, starts
from prunecast.laws.held_out import FOLDS, configurations_out, evaluate
from prunecast.laws.identify import Note
from prunecast.laws.points import Points
from prunecast.laws.solver import solve

LEAST_CONFIGURATIONS = 4
MOST_ROWS = 2_000_000
"""Rows fitted altogether; larger tables are split into fewer groups."""
NOTICED = 0.9
"""A law is preferred where its deviation is below this share of the other's."""
TITLES = {"eq2": "Eq. 2", "dip": "the law that follows the dip"}


def held_out_rms(points: Points, metric: str, seed: int = 0) -> dict[str, float]:
    """The rms deviation of each law on configurations left out; empty where there are too few of them."""
    if points.configurations < LEAST_CONFIGURATIONS:
        return {}
    folds = int(np.clip(MOST_ROWS // max(1, len(points)), 2, FOLDS))
    splits = configurations_out(points, seed, folds)
    found = {}
    for law in LAWS:
        form = build(law, points, metric)
        solution = solve(form, points, starts(form, points, seed))
        start = solution.theta[int(solution.cost.argmin())]
        found[law] = float(np.sqrt((evaluate(form, points, splits, start) ** 2).mean()))
    return {law: rms for law, rms in found.items() if np.isfinite(rms)}


def preference(law: str, rms: dict[str, float]) -> list[Note]:
    """A note that says which law predicts left-out configurations better, and by how much."""
    if set(rms) != set(LAWS):
        return []
    best = min(rms, key=lambda name: rms[name])
    other = next(name for name in LAWS if name != best)
    numbers = f"{rms[best]:.1%} against {rms[other]:.1%} on configurations left out"
    if rms[best] > NOTICED * rms[other]:
        text = f"Both laws predict about equally well ({numbers} for {TITLES[best]}); Eq. 2 has fewer parameters."
    elif best == law:
        text = f"The data prefer this law: {numbers} for {TITLES[other]}."
    else:
        text = f"The data prefer {TITLES[best]}, --law {best}: {numbers}."
    return [Note(kind="preference", text=text)]

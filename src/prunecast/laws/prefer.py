"""Which law the data prefer, judged by predicting configurations that were left out."""

import numpy as np

from prunecast.laws.catalogue import LAWS
from prunecast.laws.held_out import configurations_out, evaluate_law
from prunecast.laws.identify import Note
from prunecast.laws.points import Points

LEAST_CONFIGURATIONS = 4
FOLDS, MOST_ROWS = 5, 50_000
"""Groups of configurations left out in turn, and the rows up to which this is done at every fit."""
NOTICED = 0.9
"""A law is preferred where its deviation is below this share of the other's."""
TITLES = {"eq2": "Eq. 2", "dip": "the law that follows the dip"}


def held_out_rms(points: Points, metric: str, seed: int = 0) -> dict[str, float]:
    """The rms deviation of each law on configurations left out; empty where they are too few or the table large."""
    if points.configurations < LEAST_CONFIGURATIONS or len(points) > MOST_ROWS:
        return {}
    splits = configurations_out(points, seed, FOLDS)
    deltas = {law: evaluate_law(law, points, metric, splits, seed) for law in LAWS}
    found = {law: float(np.sqrt((delta**2).mean())) for law, delta in deltas.items()}
    return {law: rms for law, rms in found.items() if np.isfinite(rms)}


def preferred(rms: dict[str, float]) -> str:
    """The law that predicts left-out configurations clearly better; Eq. 2 where neither does."""
    best = min(rms, key=lambda name: rms[name], default="eq2")
    return best if set(rms) == set(LAWS) and rms[best] <= NOTICED * max(rms.values()) else "eq2"


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

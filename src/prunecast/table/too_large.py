"""Configurations of a table that are too large for their data, by the paper's selection rule."""

import pandas as pd

from prunecast.spec import Unpruned, pooled_noise, too_large
from prunecast.table.columns import CONFIGURATION

USUAL_NOISE = 0.034
"""Relative standard deviation of replicates in the paper, for tables that have none."""
Configuration = tuple[float, float, float]
"""Depth, width and number of examples."""


def oversized(frame: pd.DataFrame, chance: float | None) -> dict[Configuration, str]:
    """The configurations beyond the point where growing the unpruned network hurts, with the reason.

    Networks are compared at equal numbers of examples. Who is no better than chance does not count, as in a fit, which
    leaves it out anyway. The noise is that of the table's own replicates, if any.
    """
    alive = frame if chance is None else frame[frame["error"] < chance]
    noise = pooled_noise(alive["error"], alive.groupby([*CONFIGURATION, "level"]).ngroup())
    known = _unpruned(alive)
    known = known if chance is None else known[known["error"] < chance]
    found: dict[Configuration, str] = {}
    for examples in known["num_examples"].unique().tolist():
        own = known[known["num_examples"] == examples].drop(columns="num_examples").to_dict("records")
        reasons = too_large([Unpruned(**one) for one in own], USUAL_NOISE if noise is None else noise)
        found |= {(depth, width, examples): why for (depth, width), why in reasons.items()}
    return found


def _unpruned(alive: pd.DataFrame) -> pd.DataFrame:
    """Each configuration's mean error at density 1 and how many rows have it, or else what the table states."""
    dense = alive["error"].where(alive["density"] == 1)
    own = alive.assign(dense=dense).groupby(list(CONFIGURATION), as_index=False)
    known = own.agg(
        error=("dense", "mean"), stated=("unpruned_error", "first"), replicates=("dense", "count")
    )
    known["error"] = known["error"].fillna(known.pop("stated"))
    known["replicates"] = known["replicates"].clip(lower=1)
    return known

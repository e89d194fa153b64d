"""From a checked table to the points a law is fitted to, and the noise of its replicates."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from prunecast.errors import PrunecastError
from prunecast.laws.points import Floats, Integers, Points
from prunecast.spec import pooled_noise
from prunecast.table import CONFIGURATION, Table

Replicates = Literal["mean", "each"]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A table's points with what was left out of them."""

    points: Points
    at_chance: int
    """rows no better than guessing, kept in the table and left out of the fit"""
    ended: int
    """configurations that learn and were pruned until a network did no better than guessing"""
    noise: float | None
    """relative standard deviation of a replicate around its group's mean (ddof 1), where replicates exist"""


def measured(table: Table, replicates: Replicates = "mean") -> Measured:
    """The mean over surviving replicates at each level, as in the paper, or every replicate's own row."""
    frame = table.frame
    chance = np.inf if table.chance is None else table.chance
    alive = frame["error"] < chance
    unpruned = _unpruned(frame, alive)
    survives = alive & (unpruned < chance)
    kept = frame.assign(unpruned_error=unpruned)[survives]
    if kept.empty:
        raise PrunecastError(
            f"{table.source}: no row does better than chance (error {chance:g}), so there is nothing to fit; "
            "train longer or larger networks"
        )
    ended = frame[~alive & (unpruned < chance) & (frame["density"] < 1)]
    configuration = kept.groupby(list(CONFIGURATION), sort=True).ngroup().to_numpy()
    kept = kept.assign(configuration=configuration)
    groups = ["configuration", "level"] + (["replicate"] if replicates == "each" else [])
    return Measured(
        points=_points(kept, groups),
        at_chance=int((~survives).sum()),
        ended=len(ended.drop_duplicates(list(CONFIGURATION))),
        noise=pooled_noise(kept["error"], kept.groupby(["configuration", "level"]).ngroup()),
    )


def _unpruned(frame: pd.DataFrame, alive: "pd.Series[bool]") -> "pd.Series[float]":
    """ε_np of each row's configuration: the mean over the replicates of its level 0 that beat chance.

    NaN where none does; as the table states it where there is no level 0.
    """
    configurations = [frame[name] for name in CONFIGURATION]
    dense = frame["density"] == 1
    means = frame["error"].where(dense & alive).groupby(configurations).transform("mean")
    return means.where(dense.groupby(configurations).transform("any"), frame["unpruned_error"])


def _counts(kept: pd.DataFrame) -> "pd.Series[float]":
    """Non-zero weights of every row: as counted, else from the weights, else in proportion to l·w²·d.

    All rows are counted in one way, as counts of two kinds cannot be compared.
    """
    for name, share in (("nonzero", 1.0), ("weights", kept["density"])):
        if name in kept:
            counted = pd.to_numeric(kept[name], errors="coerce") * share
            if ((counted > 0) & np.isfinite(counted)).all():
                return counted
    return kept["depth"] * kept["width"] ** 2 * kept["density"]


def _points(kept: pd.DataFrame, groups: list[str]) -> Points:
    # The densest network of a configuration counts its weights: others are rounded, and rows come in any order.
    kept = kept.assign(counted=_counts(kept), survivors=1.0).sort_values(
        "density", ascending=False, kind="stable"
    )
    kept = kept.assign(full=kept["counted"] / kept["density"])
    columns = {"density": "mean", "error": "mean", "counted": "mean", "survivors": "sum"}
    rows = kept.groupby(groups, sort=True).agg(columns).reset_index()
    first = kept.groupby("configuration", sort=True)[[*CONFIGURATION, "unpruned_error", "full"]].first()
    depth = first["depth"].to_numpy(dtype=float)
    return Points(
        configuration=rows["configuration"].to_numpy(dtype=np.int64),
        level=rows["level"].to_numpy(dtype=np.int64),
        density=rows["density"].to_numpy(dtype=float),
        error=rows["error"].to_numpy(dtype=float),
        replicates=rows["survivors"].to_numpy(dtype=float),
        nonzero=rows["counted"].to_numpy(dtype=float),
        weights=first["full"].to_numpy(dtype=float),
        depth=depth,
        width=first["width"].to_numpy(dtype=float),
        num_examples=np.maximum(first["num_examples"].to_numpy(dtype=float), 1.0),
        unpruned=first["unpruned_error"].to_numpy(dtype=float),
        unpruned_replicates=_unpruned_replicates(kept),
        reference_depth=float(np.exp(np.log(depth).mean())),
        reference_examples=max(float(first["num_examples"].max()), 1.0),
    )


def _unpruned_replicates(kept: pd.DataFrame) -> Floats:
    """How many replicates each configuration's ε_np is the mean of; one where a table only states it."""
    counts = (kept["density"] == 1).groupby(kept["configuration"], sort=True).sum()
    return np.maximum(counts.to_numpy(dtype=float), 1.0)


def size_order(points: Points) -> Integers:
    """Configurations from the smallest unpruned network to the largest, ties by dataset size."""
    return np.lexsort((points.num_examples, points.weights))

"""The measured points a law is fitted to, as plain arrays sorted by configuration, and how they come from a table."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from prunecast.errors import PrunecastError
from prunecast.spec import pooled_noise
from prunecast.table import CONFIGURATION, COSTS, Table, other_latency

Replicates = Literal["mean", "each"]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

AXES = ("depth", "width", "num_examples")
OF_A_ROW = ("level", "density", "error", "replicates", "nonzero")
OF_A_CONFIGURATION = ("weights", "depth", "width", "num_examples", "unpruned", "unpruned_replicates")


@dataclass(frozen=True, kw_only=True)
class Points:
    """Errors of pruned networks, sorted by configuration, so that each configuration is a slice.

    Many problems of one form are solved at once. They share these points, or each has its own (see `packed`).
    """

    configuration: Integers
    """index of each row's configuration"""
    level: Integers
    density: Floats
    error: Floats
    """mean over the surviving replicates, or one replicate's error"""
    replicates: Floats
    """how many replicates a row's error is the mean of"""
    nonzero: Floats
    """non-zero prunable weights, or in proportion to them where a table does not count them"""
    weights: Floats
    """prunable weights of the unpruned network, one per configuration, in the same unit"""
    depth: Floats
    width: Floats
    num_examples: Floats
    unpruned: Floats
    """ε_np, one per configuration"""
    unpruned_replicates: Floats
    reference_depth: float
    """inside the invariant depth is divided by this, which decorrelates p′ and φ"""
    reference_examples: float = 1.0
    """inside the invariant the number of examples is divided by this"""

    def __len__(self) -> int:
        return int(self.error.shape[-1])

    @property
    def configurations(self) -> int:
        """How many configurations there are."""
        return int(self.depth.shape[-1])

    @cached_property
    def starts(self) -> Integers:
        """Where each configuration's rows begin."""
        return np.searchsorted(self.configuration, np.arange(self.configurations))

    @cached_property
    def log_error(self) -> Floats:
        """log ε."""
        return np.log(self.error)

    @cached_property
    def log_unpruned(self) -> Floats:
        """log ε_np, one per configuration."""
        return np.log(self.unpruned)

    @cached_property
    def inverse_square_density(self) -> Floats:
        """d⁻²."""
        return self.density**-2.0

    @cached_property
    def log_depth(self) -> Floats:
        """Log of depth over the reference depth, one per configuration."""
        return np.log(self.depth / self.reference_depth)

    @cached_property
    def log_width(self) -> Floats:
        """Log w, one per configuration."""
        return np.log(self.width)

    @cached_property
    def log_axes(self) -> dict[str, tuple[Floats, Floats]]:
        """Log depth, width and number of examples over their references, one per configuration and one per row."""
        examples = np.log(self.num_examples / self.reference_examples)
        values = {"depth": self.log_depth, "width": self.log_width, "num_examples": examples}
        return {
            axis: (per_configuration, self.per_row(per_configuration))
            for axis, per_configuration in values.items()
        }

    def per_row(self, values: Floats) -> Floats:
        """Values of the configurations, last axis, as values of the rows."""
        return values.take(self.configuration, axis=-1) if self.configuration.ndim == 1 else values

    def packed(self, at: Integers) -> "Points":
        """Points with arrays of shape (sets, rows), from the row numbers of each set.

        Each row then counts as a configuration.
        """
        configuration = self.configuration[at]
        return self._taken(at, configuration, configuration)

    def of_sets(self, at: NDArray[Any] | slice) -> "Points":
        """The points of some sets; points that are not packed are shared by all sets."""
        if self.configuration.ndim == 1:
            return self
        return self._taken(at, at, self.configuration[at])

    def rows(self, keep: Mask) -> "Points":
        """Some rows, and the configurations that have any of them."""
        used, renumbered = np.unique(self.configuration[keep], return_inverse=True)
        return self._taken(keep, used, renumbered)

    def each(self, at: Integers) -> "Points":
        """Some rows of points in which each row is a configuration."""
        return self._taken(at, at, np.arange(len(at)))

    def slice_of(self, configuration: int) -> slice:
        """The rows of one configuration."""
        ends = (*self.starts[configuration : configuration + 2].tolist(), len(self))
        return slice(ends[0], ends[1])

    def only(self, configuration: int) -> "Points":
        """All rows of one configuration; faster than `of`."""
        rows = self.slice_of(configuration)
        first = np.zeros(rows.stop - rows.start, dtype=np.int64)
        return self._taken(rows, slice(configuration, configuration + 1), first)

    def of(self, configurations: Integers) -> "Points":
        """All rows of some configurations."""
        return self.rows(np.isin(self.configuration, configurations))

    def _taken(self, rows: Any, configurations: Any, configuration: Integers) -> "Points":
        """Some rows and configurations, with the configuration of each row."""
        columns = {name: getattr(self, name)[rows] for name in OF_A_ROW}
        columns |= {name: getattr(self, name)[configurations] for name in OF_A_CONFIGURATION}
        return replace(self, configuration=configuration, **columns)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The points of a table, and what was left out."""

    points: Points
    at_chance: int
    """rows no better than guessing, kept in the table and left out of the fit"""
    reached_chance: int
    """configurations that learn and were pruned until a network did no better than guessing"""
    noise: float | None
    """relative standard deviation of a replicate around its group's mean (ddof 1), where replicates exist"""
    kept_per_level: float
    """share of the weights that one level of pruning keeps"""
    counted: bool
    """whether weights are counts; else they are in proportion to l·w²·d"""


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
    counts = _counts(kept)
    points = _points(kept, _proportional(kept) if counts is None else counts, groups)
    return Measured(
        points=points,
        at_chance=int((~survives).sum()),
        reached_chance=len(ended.drop_duplicates(list(CONFIGURATION))),
        noise=pooled_noise(kept["error"], kept.groupby(["configuration", "level"]).ngroup()),
        kept_per_level=kept_per_level(points),
        counted=counts is not None,
    )


DEFAULT_KEPT_PER_LEVEL = 0.8
"""The share of the weights that a level keeps in the paper, for tables that do not show it."""


def kept_per_level(points: Points) -> float:
    """The share of the weights that one level keeps: the median over all curves, to three digits."""
    order = np.lexsort((points.level, points.configuration))
    density, level, configuration = (
        values[order] for values in (points.density, points.level, points.configuration)
    )
    steps = np.diff(level)
    following = (np.diff(configuration) == 0) & (steps > 0) & (np.diff(density) < 0)
    if not following.any():
        return DEFAULT_KEPT_PER_LEVEL
    kept = np.exp(np.median((np.diff(np.log(density)) / np.maximum(steps, 1))[following]))
    return float(f"{kept:.3g}")


def _unpruned(frame: pd.DataFrame, alive: "pd.Series[bool]") -> "pd.Series[float]":
    """ε_np of each row's configuration: the mean over the replicates of its level 0 that beat chance.

    NaN if none does. Without a level 0, as the table states it.
    """
    configurations = [frame[name] for name in CONFIGURATION]
    dense = frame["density"] == 1
    means = frame["error"].where(dense & alive).groupby(configurations).transform("mean")
    return means.where(dense.groupby(configurations).transform("any"), frame["unpruned_error"])


def _counts(kept: pd.DataFrame) -> "pd.Series[float] | None":
    """Non-zero weights of every row: as counted, else from the weights; None if the table has neither on every row.

    All rows are counted in one way, as counts of two kinds cannot be compared.
    """
    for name, share in (("nonzero", 1.0), ("weights", kept["density"])):
        if name in kept:
            counted = pd.to_numeric(kept[name], errors="coerce") * share
            if ((counted > 0) & np.isfinite(counted)).all():
                return counted
    return None


def never_pruned(table: Table) -> dict[tuple[float, float], float]:
    """Parameters that are never pruned by depth and width, of the sizes whose parameters and weights a table counts.

    Without a column of weights, the non-zero weights of unpruned networks count them.
    """
    frame = table.frame
    weights = frame["weights"] if "weights" in frame else frame.get("nonzero")
    if weights is None or "parameters" not in frame:
        return {}
    if "weights" not in frame:
        weights = weights.where(frame["density"] == 1)
    others = pd.to_numeric(frame["parameters"], errors="coerce") - pd.to_numeric(weights, errors="coerce")
    others = others[np.isfinite(others) & (others >= 0)]
    sizes = others.groupby([frame["depth"], frame["width"]]).median().reset_index(name="others")
    columns = (sizes[name].to_numpy(dtype=float).tolist() for name in ("depth", "width", "others"))
    return {(depth, width): count for depth, width, count in zip(*columns, strict=True)}


Size = tuple[float, float, float]
"""Depth, width and number of examples."""
CostCurves = dict[str, tuple[tuple[float, float], ...]]
"""By column, density and cost of every level, from the lowest density up."""


def costs(table: Table) -> dict[Size, CostCurves]:
    """By configuration, what its networks cost at each level, the mean over replicates.

    A column counts where every row of the configuration has a positive number.
    """
    frame = table.frame
    names = [name for name in map(str, frame) if name in COSTS or other_latency(name)]
    numbers = {name: pd.to_numeric(frame[name], errors="coerce") for name in names}
    found: dict[Size, CostCurves] = {}
    for place, rows in frame.groupby(list(CONFIGURATION), sort=True) if numbers else ():
        depth, width, examples = np.array(place, dtype=float)
        curves = {
            name: _cost_curve(rows, values.loc[rows.index])
            for name, values in numbers.items()
            if (np.isfinite(values.loc[rows.index]) & (values.loc[rows.index] > 0)).all()
        }
        found[float(depth), float(width), max(float(examples), 1.0)] = curves
    return found


@dataclass(frozen=True, kw_only=True)
class UntrainedSize:
    """A size that was timed without training: what its networks cost, unpruned and with channels removed."""

    depth: float
    width: float
    costs: CostCurves


def untrained_sizes(table: Table) -> tuple[UntrainedSize, ...]:
    """The sizes that were timed without training."""
    if table.untrained is None:
        return ()
    found = []
    for place, rows in table.untrained.sort_values("density").groupby(["depth", "width"]):
        (depth, width), density = np.array(place, dtype=float), rows["density"].tolist()
        columns = [name for name in map(str, rows.columns) if name not in ("depth", "width", "density")]
        costs = {name: tuple(zip(density, rows[name].tolist(), strict=True)) for name in columns}
        found.append(UntrainedSize(depth=float(depth), width=float(width), costs=costs))
    return tuple(found)


def _cost_curve(rows: pd.DataFrame, values: "pd.Series[float]") -> tuple[tuple[float, float], ...]:
    levels = rows.assign(cost=values).groupby("level")[["density", "cost"]].mean()
    pairs = zip(levels["density"].tolist(), levels["cost"].tolist(), strict=True)
    return tuple(sorted((float(density), float(cost)) for density, cost in pairs))


def _proportional(kept: pd.DataFrame) -> "pd.Series[float]":
    """l·w²·d, which is about proportional to the non-zero weights."""
    return kept["depth"] * kept["width"] ** 2 * kept["density"]


def _points(kept: pd.DataFrame, counted: "pd.Series[float]", groups: list[str]) -> Points:
    # Weights are those of the densest network of a configuration, because counts of sparse ones are rounded.
    kept = kept.assign(counted=counted, survivors=1.0).sort_values("density", ascending=False, kind="stable")
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

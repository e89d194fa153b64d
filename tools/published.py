"""What the paper published, and the same of a table: its stated figures, and the curve of its first figure."""

import csv
import functools
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from prunecast.errors import PrunecastError
from prunecast.laws import Deviation, fit, fit_each
from prunecast.studies import PAPER_SPLIT, Optimality, extrapolation, optimality
from prunecast.table import CONFIGURATION, Table
from prunecast.wording import fitted_to

DATA = Path(__file__).parent / "published_data"
"""Claims of the text, and points read off the figures."""
NETWORK = (20.0, 1.0, 50_000.0)
"""Depth, width and examples of the published curve."""
Sizes = tuple[float, float, float]
"""Depth, width and number of examples."""


@dataclass(frozen=True, kw_only=True)
class Value:
    """A figure: a mean and a standard deviation, or one of them alone; None where it is not known."""

    mean: float | None = None
    std: float | None = None


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure of the paper and of a table, by each law; None where the paper or the table has none."""

    name: str
    """alone, joint, selected (jointly, without networks too large for their data), whole (jointly, all images only),
    noise, extrapolation, smallest or within"""
    paper: Value | None
    eq2: Value | None
    dip: Value | None
    remark: str = ""
    """what the table's figure is, where it is not quite the paper's"""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A table compared with the paper."""

    table: str
    pair: str
    rows: int
    """usable rows, means over replicates"""
    configurations: int
    figures: tuple[Figure, ...]


@functools.cache
def claims() -> dict[str, dict[str, Any]]:
    """The paper's figures by pair."""
    text = (DATA / "claims.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)["claims"]
    return found


def compare_with_paper(table: Table, pair: str) -> Comparison:
    """Compute on a table what the paper states of a pair."""
    if pair not in claims():
        raise PrunecastError(f"the paper has no pair {pair!r}; it has {', '.join(claims())}")
    paper = {name: _claimed(stated) for name, stated in claims()[pair].items()}
    fitted = fit(table, law="eq2")
    noise = Value(std=fitted.noise_floor.replicate) if fitted.noise_floor else None
    whole = _whole(table)
    found = (
        Figure(name="alone", paper=paper.get("alone"), eq2=_alone(table), dip=None),
        Figure(name="joint", paper=paper.get("joint"), eq2=_joint(table, "eq2"), dip=_joint(table, "dip")),
        _selected(table, paper.get("joint")),
        Figure(name="whole", paper=None, eq2=_joint(whole, "eq2"), dip=_joint(whole, "dip")),
        Figure(name="noise", paper=paper.get("noise"), eq2=noise, dip=noise),
        _extrapolated(table, paper.get("extrapolation")),
        *_smallest(table, paper.get("smallest")),
    )
    return Comparison(
        table=table.source,
        pair=pair,
        rows=fitted.rows,
        configurations=len(fitted.configurations),
        figures=tuple(one for one in found if one.paper or one.eq2),
    )


def _joint(table: Table | None, law: str) -> Value | None:
    """μ and σ of a law fitted to all rows; None where they cannot determine it."""
    try:
        return None if table is None else _value(fit(table, law=law).deviation)
    except PrunecastError:
        return None


def _selected(table: Table, paper: Value | None) -> Figure:
    """The same for the networks that the paper would have taken, where that makes a difference."""
    kept = table.without_too_large()
    if len(kept) == len(table):
        return Figure(name="selected", paper=None, eq2=None, dip=None)
    remark = f"{len(kept):,} of {len(table):,} training runs"
    return Figure(
        name="selected", paper=paper, eq2=_joint(kept, "eq2"), dip=_joint(kept, "dip"), remark=remark
    )


def _whole(table: Table) -> Table | None:
    """The rows with the most examples, where there are others too."""
    sizes = table.frame["num_examples"].dropna().unique()
    return table.select(num_examples=float(max(sizes))) if len(sizes) > 1 else None


def _claimed(stated: Any) -> Value | None:
    if stated is None:
        return None
    return Value(mean=stated[0], std=stated[1]) if isinstance(stated, list) else Value(std=stated)


def _value(own: Deviation) -> Value:
    return Value(mean=own.mean, std=own.std)


def _alone(table: Table) -> Value | None:
    """Eq. 1 fitted to each configuration alone, δ of all rows pooled."""
    own = [single.deviation for single in fit_each(table)]
    if not own:
        return None
    rows, means, stds = (np.array([getattr(one, name) for one in own]) for name in ("rows", "mean", "std"))
    mean = float((rows * means).sum() / rows.sum())
    square = float((rows * (means**2 + stds**2)).sum() / rows.sum())
    return Value(mean=mean, std=float(np.sqrt(max(0.0, square - mean**2))))


def _extrapolated(table: Table, paper: Value | None) -> Figure:
    """The paper's split where the table has it, else from narrow to wide, else the first axis there is."""
    try:
        steps = extrapolation(table).steps
    except PrunecastError:
        return Figure(name="extrapolation", paper=paper, eq2=None, dip=None)
    known = [step.along for step in steps]
    along = next(name for name in (PAPER_SPLIT, "width", *known) if name in known)
    own = {step.law: step for step in steps if step.along == along}
    first = next(iter(own.values()))
    as_published = along == PAPER_SPLIT and "num_examples" not in first.fitted_sizes
    return Figure(
        name="extrapolation",
        paper=paper,
        eq2=_value(own["eq2"].predicted),
        dip=_value(own["dip"].predicted),
        remark="" if as_published else f"fitted to {fitted_to(first)}",
    )


def _smallest(table: Table, paper: Value | None) -> tuple[Figure, Figure]:
    """The largest miss of the smallest network's size over all errors, and at how many it is within 25%."""
    first = _optimality(table, "eq2", None)
    second = None if first is None else _optimality(table, "dip", first.num_examples)
    found = {"eq2": first, "dip": second}
    miss = {law: Value(std=own.largest_miss) for law, own in found.items() if own}
    share = {law: Value(std=own.within_quarter) for law, own in found.items() if own}
    remark = f"{first.num_examples:,.0f} examples, {len(first.frontier)} errors" if first else ""
    everywhere = None if paper is None else Value(std=1.0)
    return (
        Figure(name="smallest", paper=paper, eq2=miss.get("eq2"), dip=miss.get("dip"), remark=remark),
        Figure(name="within", paper=everywhere, eq2=share.get("eq2"), dip=share.get("dip"), remark=remark),
    )


def _optimality(table: Table, law: str, num_examples: float | None) -> Optimality | None:
    try:
        return optimality(table, law=law, num_examples=num_examples)
    except PrunecastError:
        return None


@dataclass(frozen=True, kw_only=True)
class Lowest:
    """The lowest error of a configuration after level 0."""

    depth: float
    width: float
    num_examples: float
    unpruned: float
    """mean over replicates of level 0"""
    lowest: float
    level: int
    levels: int
    """levels after the first that were measured"""


def mean_errors(table: Table) -> dict[Sizes, dict[int, float]]:
    """The mean error over replicates of every level of every configuration."""
    errors: dict[Sizes, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    columns = [*CONFIGURATION, "level", "error"]
    for depth, width, examples, level, error in table.frame[columns].to_numpy(dtype=float).tolist():
        errors[depth, width, examples][int(level)].append(error)
    return {sizes: {level: fmean(own) for level, own in levels.items()} for sizes, levels in errors.items()}


def lowest_errors(table: Table) -> list[Lowest]:
    """The lowest mean error after level 0 of every configuration that has one."""
    return [
        _lowest(sizes, levels)
        for sizes, levels in mean_errors(table).items()
        if 0 in levels and len(levels) > 1
    ]


def _lowest(sizes: Sizes, levels: dict[int, float]) -> Lowest:
    later = {level: error for level, error in levels.items() if level > 0}
    best = min(later, key=lambda level: later[level])
    return Lowest(
        depth=sizes[0],
        width=sizes[1],
        num_examples=sizes[2],
        unpruned=levels[0],
        lowest=later[best],
        level=best,
        levels=len(later),
    )


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """One level of the published curve and of a table's own."""

    level: int
    density: float
    visibility: str
    """how well the published point can be read: visible, partly hidden or hidden"""
    published: float
    here: float | None
    published_rise: float
    """error over the unpruned error"""
    here_rise: float | None

    @property
    def off(self) -> float:
        """The error here over the published one, minus 1."""
        return (np.nan if self.here is None else self.here) / self.published - 1


def published_curve() -> list[dict[str, str]]:
    """The points of the paper's first figure, as the file has them."""
    with (DATA / "cifar10-resnet20-figure1.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compare_curve(table: Table) -> Sequence[CurvePoint]:
    """Each level of the published curve with that of the same network in a table, which may have fewer levels."""
    points, own = published_curve(), mean_errors(table).get(NETWORK, {})
    return [_point(point, own, float(points[0]["error"])) for point in points]


def _point(point: dict[str, str], own: dict[int, float], first: float) -> CurvePoint:
    level, published = int(point["level"]), float(point["error"])
    here = own.get(level)
    return CurvePoint(
        level=level,
        density=float(point["density"]),
        visibility=point["visibility"],
        published=published,
        here=here,
        published_rise=published / first,
        here_rise=here / own[0] if here is not None and 0 in own else None,
    )


READABLE = ("visible", "partly hidden")
"""Published points that can be read, to 2% and to 4%."""


def compared_points(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The points that can be read in the paper and were measured here."""
    return [point for point in points if point.here is not None and point.visibility in READABLE]

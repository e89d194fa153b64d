"""The curve of the paper's first figure, level by level beside the same network's in a table."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from prunecast import tables
from prunecast.studies.lowest import mean_errors
from prunecast.table import Table

NETWORK = (20.0, 1.0, 50_000.0)
"""Depth, width and examples of the published curve."""


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


def published_curve() -> list[dict[str, str]]:
    """The points of the paper's first figure, as the file has them."""
    with (tables.PUBLISHED / "cifar10-resnet20-figure1.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def curve_beside(table: Table) -> Sequence[CurvePoint]:
    """The published curve level by level beside that of the same network in a table, which may be shorter."""
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

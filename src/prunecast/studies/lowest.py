"""How low errors get after level 0, by whatever method they were pruned; no law is asked."""

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean

from prunecast.table import CONFIGURATION, Table

Sizes = tuple[float, float, float]
"""Depth, width and number of examples."""


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

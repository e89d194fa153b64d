"""Sweeps: from one plan file to a finished table."""

from prunecast.sweep.plan import Plan, PlannedChain, parse_plan, read_plan, shipped_plans
from prunecast.sweep.run import Progress, line, run_plan
from prunecast.sweep.table import COLUMNS, as_csv, export, row, rows

__all__ = [
    "COLUMNS",
    "Plan",
    "PlannedChain",
    "Progress",
    "as_csv",
    "export",
    "line",
    "parse_plan",
    "read_plan",
    "row",
    "rows",
    "run_plan",
    "shipped_plans",
]

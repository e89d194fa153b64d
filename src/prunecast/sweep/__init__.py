"""Sweeps: from one plan file to a finished table."""

from prunecast.sweep.events import Busy, Event, Executor, Failed, Job, LeftOut, Progress
from prunecast.sweep.executors import executor_for, fleet, inline
from prunecast.sweep.failures import Failure, failure_of
from prunecast.sweep.grid import PlannedChain, Select, left_out
from prunecast.sweep.plan import Plan, parse_plan, read_plan, shipped_plans
from prunecast.sweep.processes import processes
from prunecast.sweep.run import run_plan
from prunecast.sweep.status import ChainStatus, SweepProgress, chain_statuses
from prunecast.sweep.table import COLUMNS, as_csv, export, row, rows, rows_of, write_table
from prunecast.sweep.wording import event_line
from prunecast.sweep.work import work

__all__ = [
    "COLUMNS",
    "Busy",
    "ChainStatus",
    "Event",
    "Executor",
    "Failed",
    "Failure",
    "Job",
    "LeftOut",
    "Plan",
    "PlannedChain",
    "Progress",
    "Select",
    "SweepProgress",
    "as_csv",
    "chain_statuses",
    "event_line",
    "executor_for",
    "export",
    "failure_of",
    "fleet",
    "inline",
    "left_out",
    "parse_plan",
    "processes",
    "read_plan",
    "row",
    "rows",
    "rows_of",
    "run_plan",
    "shipped_plans",
    "work",
    "write_table",
]

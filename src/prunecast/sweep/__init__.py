"""Sweeps: from one plan file to a finished table."""

from prunecast.sweep.backend import BACKENDS, Backend, Ended, find_backend
from prunecast.sweep.driver import drive
from prunecast.sweep.events import Busy, Event, Executor, Failed, Job, LeftOut, Progress
from prunecast.sweep.failures import Failure, failure_of
from prunecast.sweep.grid import PlannedChain, Select, left_out
from prunecast.sweep.plan import Plan, parse_plan, read_plan, shipped_plans
from prunecast.sweep.processes import Processes
from prunecast.sweep.resources import Resources
from prunecast.sweep.run import executor_for, run_plan, usual_jobs
from prunecast.sweep.status import ChainStatus, SweepProgress, chain_statuses
from prunecast.sweep.table import COLUMNS, as_csv, export, row, rows, rows_of, write_table
from prunecast.sweep.wording import event_line
from prunecast.sweep.worker import WorkerSpec, run_worker, work

__all__ = [
    "BACKENDS",
    "COLUMNS",
    "Backend",
    "Busy",
    "ChainStatus",
    "Ended",
    "Event",
    "Executor",
    "Failed",
    "Failure",
    "Job",
    "LeftOut",
    "Plan",
    "PlannedChain",
    "Processes",
    "Progress",
    "Resources",
    "Select",
    "SweepProgress",
    "WorkerSpec",
    "as_csv",
    "chain_statuses",
    "drive",
    "event_line",
    "executor_for",
    "export",
    "failure_of",
    "find_backend",
    "left_out",
    "parse_plan",
    "read_plan",
    "row",
    "rows",
    "rows_of",
    "run_plan",
    "run_worker",
    "shipped_plans",
    "usual_jobs",
    "work",
    "write_table",
]

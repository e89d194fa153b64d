"""Sweeps: from one plan file to a finished table."""

from prunecast.sweep.backend import BACKENDS, Backend, Ended, find_backend, with_resources
from prunecast.sweep.cost import Network, Overview, overview
from prunecast.sweep.driver import FLEET, drive
from prunecast.sweep.events import Busy, Event, Executor, Failed, Job, LeftOut, Progress
from prunecast.sweep.failures import Failure, failure_of, in_one_line
from prunecast.sweep.grid import PlannedChain, Select, left_out
from prunecast.sweep.inspection import DataSeen, Inspection, inspect
from prunecast.sweep.plan import Plan, data_key, loader, parse_plan, read_plan, scales, shipped_plans, summary
from prunecast.sweep.processes import Processes
from prunecast.sweep.resources import Resources
from prunecast.sweep.run import executor_for, run_plan, usual_jobs
from prunecast.sweep.shared_store import check_store
from prunecast.sweep.status import (
    ChainStatus,
    SweepProgress,
    chain_statuses,
    is_locked,
    plan_edit,
    remember_plan,
)
from prunecast.sweep.table import COLUMNS, as_csv, export, row, rows, rows_of, write_table
from prunecast.sweep.wording import (
    absent_words,
    check_lines,
    damaged_line,
    deaths_words,
    edit_sentence,
    end_line,
    error_rise_words,
    event_line,
    failure_lines,
    split_words,
    start_line,
    stopped_line,
)
from prunecast.sweep.worker import (
    Stopped,
    WorkerSpec,
    prepare,
    pull_chains,
    run_worker,
    stop_on,
    torch_device,
    work,
)

__all__ = [
    "BACKENDS",
    "COLUMNS",
    "FLEET",
    "Backend",
    "Busy",
    "ChainStatus",
    "DataSeen",
    "Ended",
    "Event",
    "Executor",
    "Failed",
    "Failure",
    "Inspection",
    "Job",
    "LeftOut",
    "Network",
    "Overview",
    "Plan",
    "PlannedChain",
    "Processes",
    "Progress",
    "Resources",
    "Select",
    "Stopped",
    "SweepProgress",
    "WorkerSpec",
    "absent_words",
    "as_csv",
    "chain_statuses",
    "check_lines",
    "check_store",
    "damaged_line",
    "data_key",
    "deaths_words",
    "drive",
    "edit_sentence",
    "end_line",
    "error_rise_words",
    "event_line",
    "executor_for",
    "export",
    "failure_lines",
    "failure_of",
    "find_backend",
    "in_one_line",
    "inspect",
    "is_locked",
    "left_out",
    "loader",
    "overview",
    "parse_plan",
    "plan_edit",
    "prepare",
    "pull_chains",
    "read_plan",
    "remember_plan",
    "row",
    "rows",
    "rows_of",
    "run_plan",
    "run_worker",
    "scales",
    "shipped_plans",
    "split_words",
    "start_line",
    "stop_on",
    "stopped_line",
    "summary",
    "torch_device",
    "usual_jobs",
    "with_resources",
    "work",
    "write_table",
]

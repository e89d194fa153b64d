"""Sweeps: from one plan file to a finished table."""

from prunecast.sweep.backend import Backend, Ended, find_backend, with_resources
from prunecast.sweep.driver import FLEET, drive
from prunecast.sweep.events import (
    Busy,
    Event,
    Executor,
    Failed,
    Job,
    LeftOut,
    Progress,
    failure_of,
    in_one_line,
)
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.inspection import check_data, image_facts, inspect
from prunecast.sweep.overview import Network, Overview, overview
from prunecast.sweep.plan import (
    Plan,
    data_key,
    loader,
    parse_plan,
    read_plan,
    scales,
    shipped_plans,
    summary,
)
from prunecast.sweep.processes import Processes
from prunecast.sweep.resources import Resources
from prunecast.sweep.run import (
    OnEvent,
    executor_for,
    run_chains,
    run_plan,
    run_to_end,
    store_starts,
    usual_jobs,
)
from prunecast.sweep.session import Session, export_rows
from prunecast.sweep.shared_store import check_store
from prunecast.sweep.signals import Stopped, raising_after, stop_on
from prunecast.sweep.status import (
    ChainStatus,
    SweepProgress,
    chain_statuses,
    is_locked,
)
from prunecast.sweep.table import (
    COLUMNS,
    as_csv,
    event_as_json,
    export,
    row,
    rows,
    rows_of,
    write_table,
)
from prunecast.sweep.wording import event_line
from prunecast.sweep.worker import (
    WorkerSpec,
    prepare,
    pull_chains,
    run_worker,
    torch_device,
    work,
)

__all__ = [
    "COLUMNS",
    "FLEET",
    "Backend",
    "Busy",
    "ChainStatus",
    "Ended",
    "Event",
    "Executor",
    "Failed",
    "Job",
    "LeftOut",
    "Network",
    "OnEvent",
    "Overview",
    "Plan",
    "PlannedChain",
    "Processes",
    "Progress",
    "Resources",
    "Session",
    "Stopped",
    "SweepProgress",
    "WorkerSpec",
    "as_csv",
    "chain_statuses",
    "check_data",
    "check_store",
    "data_key",
    "drive",
    "event_as_json",
    "event_line",
    "executor_for",
    "export",
    "export_rows",
    "failure_of",
    "find_backend",
    "image_facts",
    "in_one_line",
    "inspect",
    "is_locked",
    "loader",
    "overview",
    "parse_plan",
    "prepare",
    "pull_chains",
    "raising_after",
    "read_plan",
    "row",
    "rows",
    "rows_of",
    "run_chains",
    "run_plan",
    "run_to_end",
    "run_worker",
    "scales",
    "shipped_plans",
    "stop_on",
    "store_starts",
    "summary",
    "torch_device",
    "usual_jobs",
    "with_resources",
    "work",
    "write_table",
]

"""The output of a run: the table of a plan as CSV, and JSON lines for programs that follow the run."""

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.files import check_folder, dumps, is_standard_output
from prunecast.pruning import Record, write_whole
from prunecast.spec import COLUMNS as SPEC_COLUMNS
from prunecast.spec import ChainSpec, as_columns
from prunecast.sweep.events import Busy, Event, Failed, Progress
from prunecast.sweep.plan import Plan
from prunecast.sweep.status import ChainStatus, SweepProgress, chain_statuses

RECORD_COLUMNS = (
    *(
        "level",
        "density",
        "error",
        "loss",
        "train_error",
        "validation_error",
        "parameters",
        "weights",
        "nonzero",
    ),
    *("effective_density", "remaining_parameters", "bytes", "multiply_adds", "steps", "seconds", "status"),
    "chance_error",
)
COLUMNS = (*SPEC_COLUMNS, *RECORD_COLUMNS, "spec")
STANDARD_OUTPUT = Path("-")


def row(spec: ChainSpec, record: Record) -> dict[str, Any]:
    """One row of the table; None for values that are not known."""
    return as_columns(spec) | {column: getattr(record, column) for column in RECORD_COLUMNS}


def rows(plan: Plan, store: Path) -> list[dict[str, Any]]:
    """The finished levels of a plan's chains, in the order of the plan; a damaged record is an error."""
    statuses = chain_statuses(plan, store)
    for damaged in (status for status in statuses if status.problem):
        raise PrunecastError(damaged.problem)
    return rows_of(statuses)


def rows_of(statuses: Sequence[ChainStatus]) -> list[dict[str, Any]]:
    """The rows of chains that can be read and that the selection rule does not leave out."""
    return [
        row(status.chain.spec, record)
        for status in statuses
        if not status.left_out
        for record in status.records
    ]


def as_csv(table: Iterable[dict[str, Any]]) -> str:
    """The rows as CSV, with all digits of numbers and unknown values empty; additional columns come last."""
    text, listed = io.StringIO(), list(table)
    columns = dict.fromkeys((*COLUMNS, *(name for row in listed for name in row)))
    writer = csv.DictWriter(text, list(columns), lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()


def write_table(table: Sequence[dict[str, Any]], path: Path) -> None:
    """Write rows as CSV, atomically."""
    write_whole(path.absolute(), as_csv(table).encode(), wait=True)


def export(plan: Plan, store: Path, path: Path) -> int:
    """Write the table of a plan so far and return its number of rows."""
    table = rows(plan, store)
    write_table(table, path)
    return len(table)


def event_as_json(plan: Plan, event: Event) -> dict[str, Any]:
    """An event as plain values: what happened, which chain, and the table row of a level."""
    spec, place = event.chain.spec, {"chain": event.number, "chains": len(plan.chains)}
    about = {"plan": plan.name, **place, **as_columns(spec)}
    if isinstance(event, Progress):
        more = {"dead_layers": list(event.record.dead_layers or ()), "ended": event.ended}
        return {"event": "level", **about, **row(spec, event.record), **more}
    if isinstance(event, Failed):
        return {"event": "failed", **about, "message": event.error, "traceback": event.traceback}
    if isinstance(event, Busy):
        return {"event": "busy", **about}
    return {"event": "left_out", **about, "reason": asdict(event.reason)}


class JsonLines:
    """Appends a line per event to a file, whole lines only; without a path it writes nothing."""

    def __init__(self, path: Path | None, plan: Plan) -> None:
        """Open the file, so that a path that cannot be written is refused before training."""
        self._path, self._plan = path, plan
        self._descriptor: int | None = None
        if path is None or path == STANDARD_OUTPUT:
            return
        check_folder(path)
        try:
            self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as failure:
            raise _unwritable(path, failure) from failure

    @property
    def on_standard_output(self) -> bool:
        """Whether standard output gets the lines, so that messages must go to standard error."""
        return self._path == STANDARD_OUTPUT or (self._path is not None and is_standard_output(self._path))

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def started(self, progress: SweepProgress) -> None:
        """A sweep starts or continues."""
        self._write(self._sweep("started", progress))

    def event(self, event: Event) -> None:
        """Something happened to a chain."""
        if self._path is not None:
            self._write(event_as_json(self._plan, event))

    def ended(self, progress: SweepProgress, *, stopped: bool = False) -> None:
        """All chains have ended, or the run was stopped; then a full disk is no error."""
        line = self._sweep("stopped" if stopped else "finished", progress)
        line |= {"failed": len(progress.failed), "left_out": len(progress.left_out)}
        try:
            self._write(line)
        except PrunecastError:
            if not stopped:
                raise

    def _sweep(self, event: str, progress: SweepProgress) -> dict[str, Any]:
        return {
            "event": event,
            "plan": self._plan.name,
            "chains": progress.chains,
            "chains_done": progress.chains_done,
            "levels_done": progress.levels_done,
        }

    def _write(self, body: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = dumps({"event": body["event"], "time": time, **body}) + "\n"
        if self._descriptor is None:
            print(line, end="", flush=True)
            return
        try:
            rest = line.encode()
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise _unwritable(self._path, failure) from failure


def _unwritable(path: Path, failure: OSError) -> PrunecastError:
    return PrunecastError(
        f"{path} cannot be written: {failure.strerror}. Nothing finished is lost: choose another --json-lines, or "
        "free some space, and run the same command again."
    )

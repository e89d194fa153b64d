"""A run of a plan as commands show it: what is finished, how it ends, JSON lines for programs, and the table."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from prunecast.errors import STOPPED, PrunecastError
from prunecast.files import check_folder, is_standard_output
from prunecast.sweep.events import Event, Executor
from prunecast.sweep.plan import Plan
from prunecast.sweep.run import run_plan
from prunecast.sweep.status import SweepProgress, chain_statuses, remember_plan
from prunecast.sweep.table import JsonLines, rows_of, write_table
from prunecast.sweep.wording import damaged_line, end_line, failure_lines, start_lines, stopped_line
from prunecast.text import plural


class Echo(Protocol):
    """Prints a line, on standard error if `err`."""

    def __call__(self, text: str, *, err: bool = False) -> None: ...  # noqa: D102


class Session:
    """A context for a run of a plan. Inside it, call `begin` and then `run`; however it ends, the table is written."""

    def __init__(
        self,
        plan: Plan,
        store: Path,
        echo: Echo,
        *,
        output: Path | None = None,
        json_lines: Path | None = None,
        quiet: bool = False,
    ) -> None:
        """Refuse files that cannot be written. With `quiet`, messages go to standard error."""
        check_folder(output)
        self.plan, self.progress = plan, SweepProgress(chain_statuses(plan, store))
        self.stopped = False
        self._store, self._output, self._echo = store, output, echo
        self._lines = JsonLines(json_lines, plan)
        self.err = quiet or self._lines.on_standard_output
        """Whether messages go to standard error."""
        self._began = time.monotonic()
        self._damaged = False

    @property
    def exit_status(self) -> int:
        """The exit status of the command."""
        return STOPPED if self.stopped else int(bool(self.progress.failed or self._damaged))

    def begin(self, plan: Plan) -> None:
        """Print what is finished and what was edited. `plan` was inspected, so it can be run."""
        self.plan, self._began = plan, time.monotonic()
        for line in start_lines(plan, self._store, self.progress):
            self._echo(line, err=self.err)
        if self.progress.chains_done < self.progress.chains:
            remember_plan(plan, self._store)
        self._lines.started(self.progress)

    def run(self, executor: Executor, show: Callable[[Event], object]) -> None:
        """Run the plan to its end, and show each event once it is written for other programs and counted."""
        with contextlib.closing(run_plan(self.plan, self._store, executor=executor)) as events:
            for event in events:
                self._lines.event(event)
                self.progress.update(event)
                show(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Print how the run ended, and write the table. A run that was stopped raises nothing."""
        self.stopped = isinstance(error, KeyboardInterrupt)
        try:
            self._say_end(error)
        finally:
            if self._output is not None and self.progress.levels_done:
                _, damaged = export_rows(self.plan, self._store, self._output, self._echo, err=self.err)
                self._damaged = bool(damaged)
        return self.stopped

    def _say_end(self, error: BaseException | None) -> None:
        try:
            if self.stopped:
                self._echo(stopped_line(self._store, self.progress), err=True)
            if self.stopped or error is None:
                self._lines.ended(self.progress, stopped=self.stopped)
        finally:
            self._lines.close()
        if error is None:
            self._echo(end_line(self.progress, time.monotonic() - self._began), err=self.err)
        for line in failure_lines(self.progress):
            self._echo(line, err=True)


def export_rows(
    plan: Plan, store: Path, output: Path, echo: Echo, *, err: bool = False
) -> tuple[int, list[str]]:
    """Write the rows that can be read and print their number; return it, and a line per damaged record."""
    statuses = chain_statuses(plan, store)
    table, damaged = rows_of(statuses), [status for status in statuses if status.problem]
    if not table and not damaged:
        raise PrunecastError(
            f"no training run of {plan.name} has finished in {store}; run the plan, or name its store with --store"
        )
    write_table(table, output)
    echo(f"{plural(len(table), 'row')} in {output}", err=err or is_standard_output(output))
    lines = [damaged_line(status) for status in damaged]
    for line in lines:
        echo(line, err=True)
    return len(table), lines

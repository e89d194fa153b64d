"""One run of a plan as a command shows it: what is finished, the end, JSON lines for other programs, and the table."""

import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from prunecast.errors import STOPPED, PrunecastError
from prunecast.files import check_folder, is_standard_output
from prunecast.sweep.events import Event
from prunecast.sweep.plan import Plan
from prunecast.sweep.status import SweepProgress, chain_statuses, remember_plan
from prunecast.sweep.table import JsonLines, rows_of, write_table
from prunecast.sweep.wording import damaged_line, end_line, failure_lines, start_lines, stopped_line
from prunecast.text import plural


class Echo(Protocol):
    """Prints a line, on standard error if `err`."""

    def __call__(self, text: str, *, err: bool = False) -> None: ...  # noqa: D102


class Session:
    """A run of a plan: a context that ends the run with all that is said and written then, also where it was stopped.

    Inside it, call `begin`, and `count` with every event.
    """

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
        """Refuse files that cannot be written; with `quiet` all words go to standard error."""
        check_folder(output)
        self.plan, self.progress = plan, SweepProgress(chain_statuses(plan, store))
        self.stopped = False
        self._store, self._output, self._echo = store, output, echo
        self._lines = JsonLines(json_lines, plan)
        self.err = quiet or self._lines.on_standard_output
        """Whether words go to standard error."""
        self._began = time.monotonic()
        self._damaged = False

    @property
    def exit_status(self) -> int:
        """What the command ends with."""
        return STOPPED if self.stopped else int(bool(self.progress.failed or self._damaged))

    def begin(self, plan: Plan) -> None:
        """Say what is finished and what was edited, now that nothing hinders the run; `plan` knows its data."""
        self.plan, self._began = plan, time.monotonic()
        for line in start_lines(plan, self._store, self.progress):
            self._echo(line, err=self.err)
        if self.progress.chains_done < self.progress.chains:
            remember_plan(plan, self._store)
        self._lines.started(self.progress)

    def count(self, event: Event) -> None:
        """Write an event for other programs, and count it."""
        self._lines.event(event)
        self.progress.update(event)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Say how the run ended, and write the table whatever ended it; a run that was stopped has ended well."""
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
    """Write the rows that can be read; say how many, and return that with a line per damaged record."""
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

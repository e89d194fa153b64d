"""A running sweep on the screen: a live panel on a terminal, plain lines elsewhere."""

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prunecast.cli import echo
from prunecast.report import Grid, terminal
from prunecast.text import duration

if TYPE_CHECKING:
    from prunecast.sweep import Event, Plan, SweepProgress

LATEST = 8
"""Chains shown at the same time."""


class Clock:
    """The levels done and the time left of a sweep; what takes long is computed at most once a second."""

    def __init__(self, progress: "SweepProgress", jobs: int) -> None:
        """Start the clock."""
        self._progress, self._jobs = progress, jobs
        self._began = time.monotonic()
        self._told, self._expected, self._time_left = 0.0, 0, ""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def left(self) -> str:
        """Levels done and the time left, at the speed of this run so far."""
        ended = self._progress.chains_done == self._progress.chains
        if ended or not self._expected or self.elapsed - self._told > 1:
            self._told = self.elapsed
            seconds = self._progress.seconds_left()
            speed = self._progress.trained / self.elapsed if self._progress.trained else self._jobs
            self._expected = self._progress.levels_expected
            self._time_left = f", about {duration(seconds / speed)} left" if seconds else ""
        done = self._progress.levels_done
        return f"{done:,} of about {max(done, self._expected):,}{self._time_left}"


def follow(
    events: "Iterable[Event]", plan: "Plan", progress: "SweepProgress", jobs: int, *, err: bool = False
) -> float:
    """Show a sweep while it runs, on standard error if `err`; count its events and return the seconds it took."""
    clock = Clock(progress, jobs)
    console = Console(stderr=err)
    if console.is_terminal:
        with Live(
            console=console,
            refresh_per_second=4,
            transient=True,
            get_renderable=lambda: panel(progress, clock),
        ) as live:
            for event in events:
                progress.update(event)
                _tell_above(live, plan, event)
    else:
        for event in events:
            progress.update(event)
            echo(_line(plan, event, clock), err=err)
    return clock.elapsed


def _line(plan: "Plan", event: "Event", clock: Clock) -> str:
    from prunecast.sweep import Progress, event_line

    return (
        f"{event_line(plan, event)} · {clock.left}"
        if isinstance(event, Progress)
        else event_line(plan, event)
    )


def _tell_above(live: Live, plan: "Plan", event: "Event") -> None:
    """Print finished, failed and left-out chains above the panel; levels are only shown in it."""
    from prunecast.sweep import Progress, event_line

    if not isinstance(event, Progress) or event.ended:
        live.console.print(Text(event_line(plan, event)))


def panel(progress: "SweepProgress", clock: Clock) -> Group:
    """The latest level of each running chain, a progress bar, and the time left."""
    rows = [
        [
            str(number),
            *(str(event.chain.spec.depth), f"{event.chain.spec.width:g}", str(event.chain.spec.num_examples)),
            *(str(event.chain.spec.replicate), str(event.record.level), f"{event.record.density:.4f}"),
            f"{event.record.error:.4f}",
        ]
        for number, event in list(progress.latest.items())[-LATEST:]
    ]
    header = ["chain", "depth", "width", "examples", "replicate", "level", "density", "error"]
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        ProgressBar(total=max(1, progress.levels_expected), completed=progress.levels_done, width=20),
        Text(f"levels {clock.left} · chains {progress.chains_done:,} of {progress.chains:,}"),
    )
    shown = [terminal.table(Grid(header=header, rows=rows, left=0))] if rows else []
    failed = [Text(f"{len(progress.failed)} failed", style="bold")] if progress.failed else []
    return Group(*shown, bar, *failed)

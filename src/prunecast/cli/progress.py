"""A running sweep on the screen: a live panel on a terminal, plain lines elsewhere."""

import time
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from prunecast.cli import echo
from prunecast.report import Grid, terminal
from prunecast.text import duration, printable

if TYPE_CHECKING:
    from prunecast.sweep import Event, Plan, SweepProgress

LATEST = 8
"""Chains shown at the same time."""


class Clock:
    """The levels done and the time left of a sweep, updated at most once a second."""

    def __init__(self, progress: "SweepProgress", jobs: int) -> None:
        """Start the clock."""
        self._progress, self._jobs = progress, jobs
        self._began = time.monotonic()
        self._updated, self._expected, self._time_left = 0.0, 0, ""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    @property
    def left(self) -> str:
        """Levels done and the time left, at the speed of this run so far."""
        ended = self._progress.chains_done == self._progress.chains
        if ended or not self._expected or self.elapsed - self._updated > 1:
            self._updated = self.elapsed
            seconds = self._progress.seconds_left()
            speed = self._progress.trained / self.elapsed if self._progress.trained else self._jobs
            self._expected = self._progress.levels_expected
            self._time_left = f", about {duration(seconds / speed)} left" if seconds else ""
        done = self._progress.levels_done
        return f"{done:,} of about {max(done, self._expected):,}{self._time_left}"


class Activity:
    """A line at the bottom of a terminal that shows what is going on, and for how long."""

    def __init__(self, now: str, *, err: bool = False) -> None:
        """`err` is for standard error."""
        self._err, self._now, self._since = err, now, time.monotonic()
        console = Console(stderr=err)
        line = Live(console=console, refresh_per_second=4, transient=True, get_renderable=self._line)
        self._live = line if console.is_terminal else None

    def _line(self) -> Text:
        return Text(
            f"{self._now} · {duration(time.monotonic() - self._since)}", style="dim", overflow="ellipsis"
        )

    def now(self, what: str) -> None:
        """Show what is going on from now."""
        self._now, self._since = what, time.monotonic()
        if self._live:
            self._live.refresh()

    def say(self, text: str) -> None:
        """Print text above the line, or as it is where there is no terminal."""
        if self._live:
            self._live.console.print(Text(printable(text)))
        else:
            echo(text, err=self._err)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()


class Screen:
    """Shows a sweep while it runs: a live panel on a terminal, a line per event elsewhere."""

    def __init__(self, plan: "Plan", progress: "SweepProgress", jobs: int, *, err: bool = False) -> None:
        """`progress` must count every event before it is shown; `err` selects standard error."""
        self._plan, self._err, self._clock = plan, err, Clock(progress, jobs)
        console = Console(stderr=err)
        self._live = (
            Live(
                console=console,
                refresh_per_second=4,
                transient=True,
                get_renderable=lambda: panel(progress, self._clock),
            )
            if console.is_terminal
            else None
        )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, event: "Event") -> None:
        """Show an event: a line, or above the panel only if a chain ended or failed."""
        from prunecast.sweep import Progress, event_line

        line = event_line(self._plan, event)
        if self._live is None:
            left = f" · {self._clock.left}" if isinstance(event, Progress) else ""
            echo(line + left, err=self._err)
        elif not isinstance(event, Progress) or event.ended:
            self._live.console.print(Text(line))


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

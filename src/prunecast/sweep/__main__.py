"""`python -m prunecast.sweep PLAN`: `prunecast run` for machines that have only torch and numpy."""

import argparse
import contextlib
import logging
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from prunecast.errors import PrunecastError, refused_path, sentence
from prunecast.text import plural, printable

if TYPE_CHECKING:
    from prunecast.sweep import Plan

STOP_SIGNALS = (signal.SIGTERM, signal.SIGALRM)


def main(arguments: list[str] | None = None) -> int:
    """Train and prune every chain of a plan, print a line per level, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m prunecast.sweep", description=main.__doc__)
    parser.add_argument("plan", help="a TOML file, or the name of a plan that ships")
    parser.add_argument("--scale", default="full", help="one of the plan's scales; by default the whole plan")
    parser.add_argument("--data", type=Path, help="folder with the datasets; by default $PRUNECAST_DATA")
    parser.add_argument(
        "--store",
        type=Path,
        default=Path("prunecast-store"),
        help="folder for the results; by default prunecast-store",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda; by default cpu")
    parser.add_argument("-o", "--output", type=Path, help="CSV file for the table")
    parser.add_argument(
        "--json-lines",
        type=Path,
        help="append one line of JSON per event to this file; - is standard output",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        help="chains to train at the same time; by default one per core, or per `threads` cores",
    )
    parser.add_argument(
        "--plain",
        action="store_true",
        help="on a GPU, train one chain after the other instead of packing them",
    )
    parser.add_argument(
        "--seconds", type=int, default=0, help="stop cleanly after this many seconds; 0 means never"
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    _listen_for_stops(given.seconds)
    try:
        return _run(given)
    except PrunecastError as mistake:
        _say(f"Error: {sentence(mistake)}", error=True)
        return 2
    except OSError as error:
        if not (refused := refused_path(error)):
            raise
        _say(f"Error: {refused}", error=True)
        return 2


def _listen_for_stops(seconds: int) -> None:
    """Stop cleanly on a signal or after so many seconds.

    torch is imported before: it takes seconds, and code in the middle of it may swallow an interrupt.
    """
    began = time.monotonic()
    import prunecast.fleet
    import prunecast.sweep  # noqa: F401

    for number in STOP_SIGNALS:
        signal.signal(number, _stop)
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds - (time.monotonic() - began)))


def _run(given: argparse.Namespace) -> int:
    from prunecast.files import check_folder
    from prunecast.sweep import (
        JsonLines,
        SweepProgress,
        chain_statuses,
        inspect,
        read_plan,
        run_plan,
        wording,
    )
    from prunecast.sweep.run import usual_jobs
    from prunecast.sweep.status import remember_plan

    check_folder(given.output)
    sys.path.append(str(Path(given.plan).absolute().parent))  # a user's own family may be next to the plan
    plan = read_plan(given.plan, scale=given.scale, data=given.data)
    progress = SweepProgress(chain_statuses(plan, given.store))
    jobs = usual_jobs(given.device, plan.chains) if given.jobs is None else given.jobs
    began, code = time.monotonic(), 0
    lines = JsonLines(given.json_lines, plan)
    say = partial(_say, error=lines.on_standard_output)
    try:
        options = {"device": given.device, "jobs": jobs, "plain": given.plain}
        plan = inspect(plan).plan
        sweep = run_plan(plan, given.store, on_event=lines.event, **options)
        for line in wording.start_lines(plan, given.store, progress):
            say(line)
        lines.started(progress)
        if progress.chains_done < progress.chains:
            remember_plan(plan, given.store)
        with contextlib.closing(sweep):  # a fleet that is stopped still stores levels, and the table has them
            for event in sweep:
                progress.update(event)
                say(wording.event_line(plan, event))
        say(wording.end_line(progress, time.monotonic() - began))
        lines.ended(progress)
        for line in wording.failure_lines(progress):
            _say(line, error=True)
        code = 1 if progress.failed else 0
    except KeyboardInterrupt:
        _say(wording.stopped_line(given.store, progress), error=True)
        lines.ended(progress, stopped=True)
        code = 130
    finally:
        lines.close()
        signal.setitimer(signal.ITIMER_REAL, 0)
        if given.output:
            code = _export(plan, given.store, given.output, lines.on_standard_output) or code
    return code


def _export(plan: "Plan", store: Path, output: Path, on_standard_error: bool) -> int:
    """Write the rows that can be read and report damaged records; the exit code."""
    from prunecast.files import is_standard_output
    from prunecast.sweep import chain_statuses, rows_of, wording, write_table

    statuses = chain_statuses(plan, store)
    table, damaged = rows_of(statuses), [status for status in statuses if status.problem]
    write_table(table, output)
    _say(f"{plural(len(table), 'row')} in {output}", error=on_standard_error or is_standard_output(output))
    for status in damaged:
        _say(wording.damaged_line(status), error=True)
    return 1 if damaged else 0


def _say(text: str, *, error: bool = False) -> None:
    """Print a line whose names and messages may come from others, so that it does nothing to the terminal."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)


def _stop(_: int, __: object) -> NoReturn:
    """Stop as Ctrl-C does, and ignore further stop signals meanwhile; Ctrl-C itself still interrupts."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

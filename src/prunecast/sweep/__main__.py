"""`python -m prunecast.sweep PLAN`: `prunecast run` for machines that have only torch and numpy."""

import argparse
import logging
import signal
import sys
import time
from pathlib import Path

from prunecast.errors import PrunecastError, refused_path, sentence
from prunecast.text import printable

STOP_SIGNALS = (signal.SIGTERM, signal.SIGALRM)
"""Signals that stop the run as Ctrl-C does."""


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
        _say(f"Error: {sentence(mistake)}", err=True)
        return 2
    except OSError as error:
        if not (refused := refused_path(error)):
            raise
        _say(f"Error: {refused}", err=True)
        return 2


def _listen_for_stops(seconds: int) -> None:
    """Stop cleanly on a signal, or after so many seconds.

    torch is imported first, because code that runs during its import may swallow an interrupt.
    """
    began = time.monotonic()
    import prunecast.fleet  # noqa: F401
    from prunecast.sweep import stop_on

    stop_on(dict.fromkeys(STOP_SIGNALS, KeyboardInterrupt))
    if seconds:
        signal.setitimer(signal.ITIMER_REAL, max(0.01, seconds - (time.monotonic() - began)))


def _run(given: argparse.Namespace) -> int:
    from prunecast.sweep import Session, event_line, executor_for, inspect, read_plan, usual_jobs

    sys.path.append(str(Path(given.plan).absolute().parent))  # a user's own family may be next to the plan
    plan = read_plan(given.plan, scale=given.scale, data=given.data)
    jobs = usual_jobs(given.device, plan.chains) if given.jobs is None else given.jobs
    with Session(plan, given.store, _say, output=given.output, json_lines=given.json_lines) as session:
        try:
            plan = inspect(plan).plan
            executor = executor_for(given.device, jobs, plain=given.plain)
            session.begin(plan)
            session.run(executor, lambda event: _say(event_line(plan, event), err=session.err))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return session.exit_status


def _say(text: str, *, err: bool = False) -> None:
    """Print a line without control characters: names and messages may come from anywhere."""
    print(printable(text), file=sys.stderr if err else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())

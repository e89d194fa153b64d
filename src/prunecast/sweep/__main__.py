"""`python -m prunecast.sweep PLAN`: a sweep on a machine that has torch and numpy and nothing else."""

import argparse
import contextlib
import logging
import signal
import sys
from pathlib import Path
from typing import NoReturn

from prunecast.errors import PrunecastError, sentence
from prunecast.text import plural

STOPS = (signal.SIGTERM, signal.SIGALRM)


def main(arguments: list[str] | None = None) -> int:
    """Run a plan, print a line a level, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m prunecast.sweep", description=main.__doc__)
    parser.add_argument("plan", help="a TOML file, or the name of a plan that ships")
    parser.add_argument(
        "--scale", default="full", help="one of the plan's scales; the whole plan if not given"
    )
    parser.add_argument("--data", type=Path, help="folder of the datasets; PRUNECAST_DATA if not given")
    parser.add_argument("--store", type=Path, default=Path("prunecast-store"), help="folder of the results")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("-o", "--output", type=Path, help="CSV file for the table")
    parser.add_argument("--jobs", type=int, help="chains at the same time; as many as cores if not given")
    parser.add_argument("--plain", action="store_true", help="one chain after the other on a GPU too")
    parser.add_argument("--seconds", type=int, default=0, help="stop cleanly after so long; 0 means never")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for number in STOPS:
        signal.signal(number, _stop)
    signal.alarm(given.seconds)
    try:
        return _run(given)
    except PrunecastError as mistake:
        print(f"Error: {sentence(mistake)}", file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    from prunecast.files import check_folder
    from prunecast.sweep import Failed, export, line, read_plan, run_plan
    from prunecast.sweep.executors import usual_jobs

    check_folder(given.output)
    plan = read_plan(given.plan, scale=given.scale, data=given.data)
    code = 0
    jobs = usual_jobs(given.device) if given.jobs is None else given.jobs
    try:
        sweep = run_plan(plan, given.store, device=given.device, jobs=jobs, plain=given.plain)
        with contextlib.closing(sweep):  # a fleet that is stopped still stores levels, and the table has them
            for event in sweep:
                print(line(plan, event), flush=True)
                code = 1 if isinstance(event, Failed) else code
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        code = 130
    finally:
        signal.alarm(0)
        if given.output:
            written = plural(export(plan, given.store, given.output), "row")
            print(f"{written} in {given.output}", flush=True)
    return code


def _stop(_: int, __: object) -> NoReturn:
    """Stop as Ctrl-C does; while that is done, only Ctrl-C itself is heard once more."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

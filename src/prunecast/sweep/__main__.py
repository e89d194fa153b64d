"""`python -m prunecast.sweep PLAN`: a sweep on a machine that has torch and numpy and nothing else."""

import argparse
import sys
from pathlib import Path

from prunecast.errors import PrunecastError


def main(arguments: list[str] | None = None) -> int:
    """Run a plan, print a line a level, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m prunecast.sweep", description=main.__doc__)
    parser.add_argument("plan", help="a TOML file, or the name of a plan that ships")
    parser.add_argument("--store", type=Path, default=Path("prunecast-store"), help="folder of the results")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("-o", "--output", type=Path, help="CSV file for the table")
    given = parser.parse_args(arguments)
    from prunecast.sweep import export, line, read_plan, run_plan

    try:
        plan = read_plan(given.plan)
        for progress in run_plan(plan, given.store, device=given.device):
            print(line(plan, progress), flush=True)
        if given.output:
            print(f"{export(plan, given.store, given.output)} rows in {given.output}")
    except PrunecastError as mistake:
        print(f"Error: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Processor time of the commands that read a table: `python benchmarks/commands.py [OTHER_CHECKOUT]`, one core.

Each command runs in a process of its own, imports included, on the shipped table of exact images and on a planted one
of 800 configurations (23,000 rows). With the folder of another checkout, runs of both alternate, and the ratio of their
best times is shown.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from planted_tables import planted
from rich.console import Console
from rich.table import Table as Grid

HERE = Path(__file__).parents[1]
REPEATS = 3
STUDIES = ("sensitivity", "extrapolation", "invariance", "forms", "dips", "optimality", "noise")
SHIPPED = [
    "--help",
    "choose TABLE --target-error 0.1",
    "choose TABLE --frontier --json",
    "fit TABLE",
    "fit TABLE -o law.json",
    "predict law.json --density 0.5,0.1,0.02 --depth 20 --width 0.5 --num-examples 50000",
    "compare TABLE",
    "next TABLE",
    "report TABLE -o page.html",
    "figures TABLE -o figures",
    *(f"study {study} TABLE" for study in STUDIES),
]
LARGE = ["choose TABLE --target-error 0.1", "fit TABLE", "report TABLE -o page.html"]


def write_large_table(path: Path) -> None:
    """Eq. 2 with noise, for 800 of 910 configurations of 10 depths, 13 widths and 7 numbers of examples."""
    depths = (8, 14, 20, 26, 32, 38, 44, 50, 74, 98)
    widths = tuple(2.0 ** (half / 2) for half in range(-8, 5))
    planted(configurations=800, depths=depths, widths=widths).to_csv(path, index=False)


def processor_seconds(checkout: Path, command: str, folder: Path) -> float:
    """User time of one run of a command, its child processes included."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(checkout / "src")}
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(
        [sys.executable, "-m", "prunecast", *command.split()],
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def best(checkouts: tuple[Path, ...], command: str, folder: Path, repeats: int) -> list[float]:
    """The least time of each checkout; their runs alternate, so that both see the same machine."""
    rounds = [[processor_seconds(each, command, folder) for each in checkouts] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


@click.command()
@click.argument("other", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--only", default="", help="Run only commands that contain this text.")
@click.option("--repeats", default=REPEATS, help="Show the best of this many runs.")
def main(other: Path | None, only: str, repeats: int) -> None:
    """Time the commands of this checkout, and of OTHER beside them."""
    checkouts = (HERE,) if other is None else (other.absolute(), HERE)
    heads = ("user s",) if other is None else ("other, s", "this, s", "times faster")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_large_table(folder / "planted800.csv")
        for table, commands in (("cifar10-resnet-exact", SHIPPED), ("planted800.csv", LARGE)):
            grid = Grid(table, *heads)
            for command in commands:
                if only not in command:
                    continue
                times = best(checkouts, command.replace("TABLE", table), folder, repeats)
                ratio = [f"{times[0] / times[1]:.1f}"] if other else []
                grid.add_row(command, *(f"{each:.2f}" for each in times), *ratio)
            Console(width=120).print(grid)


if __name__ == "__main__":
    main()

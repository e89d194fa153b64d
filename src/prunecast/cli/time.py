"""The command that measures latency on this machine."""

import csv
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import echo
from prunecast.cli.engine import DATA, SCALE, STORE, read
from prunecast.cli.parameters import JSON, Count, Number, OutputFile, refuse_with
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.report import Grid, Section, terminal
from prunecast.text import listed, plural

if TYPE_CHECKING:
    from prunecast.export import Latency, Level, TimedLevel, TimedNetwork, Timing

SECONDS_BETWEEN_WRITES = 10
HEADER = ("Median ms", "10% to 90%", "Images/s")


@click.command("time")
@click.argument("network", metavar="FOLDER|PLAN")
@click.option(
    "--batch",
    "batches",
    type=Count(),
    multiple=True,
    default=(1,),
    show_default=True,
    help="Images per call; may be repeated.",
)
@click.option(
    "--runtime",
    "runtimes",
    type=click.Choice(["torch", "onnx"]),
    multiple=True,
    default=("torch",),
    show_default=True,
    help="PyTorch or ONNX Runtime, on the CPU; may be repeated.",
)
@click.option("--threads", type=Count(), default=1, show_default=True, help="Threads per network.")
@click.option(
    "--seconds",
    type=Number(),
    default=0.5,
    show_default=True,
    help="How long to call each network, per runtime and batch.",
)
@STORE
@SCALE
@DATA
@click.option("-o", "--output", type=OutputFile(), help="With PLAN: write its table with the latencies.")
@JSON
def time_(
    network: str,
    batches: tuple[int, ...],
    runtimes: tuple[Any, ...],
    threads: int,
    seconds: float,
    store: Path,
    scale: str,
    data: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure how long networks take on this machine's CPU.

    FOLDER is a network that `prunecast make` wrote; it is compared with its unpruned network. For a PLAN, all networks
    in the store are measured, and -o writes its table with a column latency_ms, which `choose --minimise latency` and
    `--max-latency` read; if it is stopped, the same command goes on. Run nothing else at the same time.
    """
    from prunecast.export import Timing, time_made

    how = Timing(runtimes=runtimes, batches=batches, threads=threads, seconds=seconds)
    if Path(network).is_dir():
        refuse_with(network, "is the folder of one network, not a plan", "output", "store", "scale", "data")
        found = time_made(Path(network), how)
        echo(dumps(asdict(found)) if as_json else made_text(found, network, how))
        return
    _time_plan(network, scale, data, store, how, output, as_json)


def _time_plan(
    plan: str,
    scale: str,
    data: Path | None,
    store: Path,
    how: "Timing",
    output: Path | None,
    as_json: bool,
) -> None:
    from rich.console import Console

    from prunecast.export import time_table

    levels: list[TimedLevel] = []
    written = time.monotonic()
    before = {} if output is None else _timed_before(output, how)
    try:
        with Console(stderr=True).status("timing the first network") as status:  # shown on a terminal only
            for level in time_table(read(plan, scale, data), store, how, before):
                levels.append(level)
                spec, record = level.spec, level.record
                done = f"depth {spec.depth}, width {spec.width:g}, level {record.level}"
                status.update(f"timed {plural(len(levels), 'network')}, the last of {done}")
                if output is not None and time.monotonic() - written > SECONDS_BETWEEN_WRITES:
                    _write(levels, how, output)
                    written = time.monotonic()
    finally:  # a run that is stopped goes on from there
        if output is not None and levels:
            _write(levels, how, output)
    if not levels:
        raise PrunecastError(
            f"{store} has no finished level of {plan}; run the plan first, or name its --store."
        )
    rows = _rows(levels, how)
    if as_json:
        echo(dumps({"output": None if output is None else str(output), "rows": rows}))
        return
    echo(table_text(levels, plan, how))
    if output is not None:
        first, *others = (name for name in rows[0] if name.startswith("latency_ms"))
        also = f" `choose` reads; it also has {listed(others)}" if others else ""
        echo(
            f"\n{output} has {plural(len(rows), 'row')} with the column {first}{' that' * bool(also)}{also}."
        )


def _rows(levels: "list[TimedLevel]", how: "Timing") -> list[dict[str, Any]]:
    from prunecast.export import latency_columns
    from prunecast.sweep import row

    return [{**row(level.spec, level.record), **latency_columns(level.latencies, how)} for level in levels]


def _write(levels: "list[TimedLevel]", how: "Timing", output: Path) -> None:
    from prunecast.sweep import write_table

    write_table(_rows(levels, how), output)


def _timed_before(output: Path, how: "Timing") -> "dict[Level, tuple[Latency, ...]]":
    """The latencies in a table that a stopped run has written."""
    from prunecast.export import latencies_of

    if not output.is_file():
        return {}
    try:
        with output.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error):  # another file, which is about to be replaced
        return {}
    found = {(row.get("spec") or "", row.get("level") or ""): latencies_of(row, how) for row in rows}
    return {
        (digest, int(level)): own
        for (digest, level), own in found.items()
        if own is not None and digest and level.isdecimal()
    }


def made_text(found: "TimedNetwork", folder: str, how: "Timing") -> str:
    """A made network and the unpruned one."""
    rows = []
    for pruned, whole in zip(found.made, found.unpruned, strict=True):
        name = [pruned.runtime, str(pruned.batch)]
        ratio = f"{whole.milliseconds / pruned.milliseconds:.2f}"
        rows += [[*name, "pruned", *cells(pruned), ratio], [*name, "unpruned", *cells(whole), ""]]
    header = ["Runtime", "Batch", "Network", *HEADER, "Times faster"]
    return terminal.text(
        Section(
            title=f"Latency of {folder}.", grids=[Grid(header=header, rows=rows, left=3)], notes=[_how(how)]
        )
    )


def table_text(levels: "list[TimedLevel]", plan: str, how: "Timing") -> str:
    """The networks of a table with the first of their latencies."""
    rows = [
        [
            *(f"{level.spec.depth}", f"{level.spec.width:.4g}", f"{level.record.level}"),
            *(f"{level.record.density:.4f}", f"{level.record.error:.4f}"),
            *cells(level.latencies[0]),
        ]
        for level in levels
    ]
    first = levels[0].latencies[0]
    caption = f"{first.runtime}, batch {first.batch}"
    header = ["Depth", "Width", "Level", "Density", "Error", *HEADER]
    grid = Grid(header=header, rows=rows, left=0, caption=caption, long=True)
    return terminal.text(
        Section(title=f"Latency of the networks of {plan}.", grids=[grid], notes=[_how(how)])
    )


def cells(latency: "Latency") -> list[str]:
    """Median, range and throughput."""
    return [
        f"{latency.milliseconds:.3g}",
        f"{latency.low:.3g} to {latency.high:.3g}",
        f"{1000 * latency.batch / latency.milliseconds:,.0f}",
    ]


def _how(how: "Timing") -> str:
    return (
        f"On the CPU with {plural(how.threads, 'thread')}, {how.seconds:g} s of calls each after a warm-up. Other "
        "programs running on the machine change these numbers."
    )

"""The command that measures latency on this machine."""

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.choice import DEFAULT_SIZES, SizeRange
from prunecast.cli import echo
from prunecast.cli.engine import DATA, SCALE, STORE, read
from prunecast.cli.parameters import JSON, Count, Number, OutputFile, refuse_with
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.report import Grid, Section, terminal
from prunecast.table import untrained_path
from prunecast.text import listed, plural
from prunecast.wording import timed_by

if TYPE_CHECKING:
    from prunecast.export import Latencies, Latency, Level, Place, TimedLevel, TimedNetwork, Timing
    from prunecast.sweep import ChainStatus, Plan

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
    type=click.Choice(["torch", "onnx", "cuda"]),
    multiple=True,
    default=("torch",),
    show_default=True,
    help="PyTorch or ONNX Runtime on the CPU, or PyTorch on a GPU (cuda); may be repeated.",
)
@click.option("--threads", type=Count(), default=1, show_default=True, help="CPU threads per network.")
@click.option(
    "--seconds",
    type=Number(),
    default=0.5,
    show_default=True,
    help="How long to call each network, per runtime and batch.",
)
@click.option(
    "--rounds",
    type=Count(),
    default=1,
    show_default=True,
    help="With PLAN: time all networks so often, and keep the fastest of each, for a machine that does other work.",
)
@STORE
@SCALE
@DATA
@click.option("-o", "--output", type=OutputFile(), help="With PLAN: write its table with the latencies.")
@click.option(
    "--sizes",
    type=click.Choice([sizes.value for sizes in SizeRange]),
    default=DEFAULT_SIZES.value,
    show_default=True,
    help="With -o: also time untrained networks of the sizes that `choose --sizes` considers.",
)
@JSON
def time_(
    network: str,
    batches: tuple[int, ...],
    runtimes: tuple[Any, ...],
    threads: int,
    seconds: float,
    rounds: int,
    store: Path,
    scale: str,
    data: Path | None,
    output: Path | None,
    sizes: str,
    as_json: bool,
) -> None:
    """Measure how long networks take on this machine.

    FOLDER is a network that `prunecast make` wrote; it is compared with its unpruned network. For a PLAN, all networks
    in the store are measured, and -o writes its table with a column latency_ms, which `choose --minimise latency` and
    `--max-latency` read, and beside it a file with the latencies of untrained networks, from which these predict the
    latency of other sizes. If it is stopped, the same command goes on. Run nothing else at the same time.
    """
    from prunecast.export import Timing, time_made

    how = Timing(runtimes=runtimes, batches=batches, threads=threads, seconds=seconds)
    if Path(network).is_dir():
        refuse_with(
            network,
            "is the folder of one network, not a plan",
            "output",
            "rounds",
            "sizes",
            "store",
            "scale",
            "data",
        )
        found = time_made(Path(network), how)
        echo(dumps(asdict(found)) if as_json else made_text(found, network, how))
        return
    _time_plan(read(network, scale, data), network, store, how, rounds, sizes, output, as_json)


def _time_plan(
    plan: "Plan",
    name: str,
    store: Path,
    how: "Timing",
    rounds: int,
    sizes: str,
    output: Path | None,
    as_json: bool,
) -> None:
    from rich.console import Console

    from prunecast.export import trained_chains

    chains = trained_chains(plan, store)
    if not chains:
        raise PrunecastError(
            f"{store} has no finished level of {name}; run the plan first, or name its --store."
        )
    times = _Times(chains=chains, store=store, how=how, sizes=sizes, output=output)
    with Console(stderr=True).status("timing the first network") as status:  # shown on a terminal only
        try:
            for number in range(1, rounds + 1):
                for done in times.round():
                    status.update(f"round {number} of {rounds}: timed {done}")
        finally:  # a run that is stopped goes on from there
            times.write()
    levels = list(times.levels.values())
    rows = _rows(levels, how)
    if as_json:
        echo(dumps({"output": None if output is None else str(output), "rows": rows}))
        return
    echo(table_text(levels, name, how))
    if output is not None:
        first, *others = (name for name in rows[0] if name.startswith("latency_ms"))
        also = f" `choose` reads; it also has {listed(others)}" if others else ""
        echo(
            f"\n{output} has {plural(len(rows), 'row')} with the column {first}{' that' * bool(also)}{also}."
        )
        if times.untrained:
            networks = plural(len(times.untrained), "untrained network")
            echo(
                f"{untrained_path(output)} has {networks}, from which `choose` predicts the latency of sizes "
                "between the trained ones. Keep both files together."
            )


@dataclass(kw_only=True)
class _Times:
    """The latencies of a plan's networks and of untrained ones, the fastest of all rounds."""

    chains: "Sequence[ChainStatus]"
    store: Path
    how: "Timing"
    sizes: str
    output: Path | None
    levels: "dict[Level, TimedLevel]" = field(default_factory=dict)
    untrained: "dict[Place, Latencies]" = field(default_factory=dict)
    written: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        """Read what a stopped run has written; of a whole table, everything is timed again."""
        self._before: dict[Level, Latencies] = {}
        self._untrained_before: dict[Place, Latencies] = {}
        if self.output is None:
            return
        before = _timed_before(self.output, self.how)
        if (
            not {(own.chain.spec.digest, record.level) for own in self.chains for record in own.records}
            <= before.keys()
        ):
            from prunecast.export import untrained_before

            self._before = before
            self._untrained_before = untrained_before(_read_rows(untrained_path(self.output)), self.how)

    def round(self) -> Iterator[str]:
        """Time every network, and say after each what was done."""
        from prunecast.export import fastest, time_table, time_untrained, untrained_networks

        if self.output is not None:
            networks = untrained_networks(self.chains, self.store, self.sizes)
            for number, (place, latencies) in enumerate(
                time_untrained(networks, self.how, self._untrained_before), 1
            ):
                self.untrained[place] = fastest([self.untrained.get(place, latencies), latencies])
                self._write_sometimes()
                depth, width, *_ = place
                yield f"{plural(number, 'untrained network')}, the last of depth {depth}, width {width}"
        for number, level in enumerate(time_table(self.chains, self.store, self.how, self._before), 1):
            spec, key = level.spec, (level.spec.digest, level.record.level)
            best = fastest([self.levels.get(key, level).latencies, level.latencies])
            self.levels[key] = replace(level, latencies=best)
            self._write_sometimes()
            done = f"depth {spec.depth}, width {spec.width:g}, level {level.record.level}"
            yield f"{plural(number, 'network')}, the last of {done}"
        self._before, self._untrained_before = {}, {}

    def _write_sometimes(self) -> None:
        if time.monotonic() - self.written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Write what was timed so far."""
        from prunecast.export import write_untrained
        from prunecast.sweep import write_table

        if self.output is not None:
            if self.levels:
                write_table(_rows(list(self.levels.values()), self.how), self.output)
            if self.untrained:
                write_untrained(self.untrained, self.how, untrained_path(self.output))
            elif self.levels:
                untrained_path(self.output).unlink(missing_ok=True)  # of another plan
        self.written = time.monotonic()


def _rows(levels: "list[TimedLevel]", how: "Timing") -> list[dict[str, Any]]:
    from prunecast.export import latency_columns
    from prunecast.sweep import row

    return [{**row(level.spec, level.record), **latency_columns(level.latencies, how)} for level in levels]


def _timed_before(output: Path, how: "Timing") -> "dict[Level, Latencies]":
    """The latencies in a table that a stopped run has written."""
    from prunecast.export import latencies_of

    found = {
        (row.get("spec") or "", row.get("level") or ""): latencies_of(row, how) for row in _read_rows(output)
    }
    return {
        (digest, int(level)): own
        for (digest, level), own in found.items()
        if own is not None and digest and level.isdecimal()
    }


def _read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none of another file, which is about to be replaced."""
    if not path.is_file():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error):
        return []


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
    clocks = dict.fromkeys(timed_by(runtime, how.threads) for runtime in how.runtimes)
    return (
        f"Times are {listed(list(clocks))}. Each network was called for {how.seconds:g} s after a warm-up. Other "
        "programs running on the machine change these numbers."
    )

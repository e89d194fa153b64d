"""The commands of the engine: show a plan, run it, show its status, export its table, and check its store."""

import contextlib
import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from prunecast.cli import echo, import_from
from prunecast.cli.cluster import cluster_options, placed
from prunecast.cli.parameters import JSON, Count, Device, Number
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.text import plural

if TYPE_CHECKING:
    from prunecast.sweep import Plan, SweepProgress

STORE = click.option(
    "--store",
    metavar="STORE",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("prunecast-store"),
    show_default=True,
    help="Folder for the results; several plans may share it.",
)
DEVICE = click.option(
    "--device", type=Device(), default="cpu", show_default=True, help="Where to train; cuda uses every GPU."
)
JOBS = click.option(
    "--jobs",
    type=Count(),
    help="Chains to train at the same time; by default one per core, or per `threads` cores.",
)
SCALE = click.option(
    "--scale",
    metavar="SCALE",
    default="full",
    show_default=True,
    help="One of the plan's scales, such as smoke.",
)
DATA = click.option(
    "--data",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder with the datasets; by default $PRUNECAST_DATA.",
)
TABLE = click.Path(dir_okay=False, path_type=Path)
STOPPED = 130
"""Exit status of a run that was stopped, as shells define it."""


def read(source: str, scale: str, data: Path | None = None) -> "Plan":
    """Read a plan; a user's own family may be in this folder or in the plan's."""
    from prunecast.sweep import read_plan

    import_from(source)
    return read_plan(source, scale=scale, data=data)


@click.command()
@click.argument("plan", metavar="[PLAN]", required=False)
@SCALE
@DATA
@DEVICE
@JOBS
@click.option("--no-estimate", is_flag=True, help="Do not time any steps.")
@JSON
def plan(
    plan: str | None,
    scale: str,
    data: Path | None,
    device: str,
    jobs: int | None,
    no_estimate: bool,
    as_json: bool,
) -> None:
    """Show what PLAN would train and how long that takes here; without PLAN, list the plans that ship.

    Your own images are read, and the plan is checked as `run` checks it. Official datasets need not be there yet.
    A few of its networks are trained for a fraction of a second each to measure their speed. On a GPU a few packs
    of networks are built and timed, which takes up to a minute per family.
    """
    from prunecast.cli import show
    from prunecast.sweep import scales, shipped_plans, summary

    if plan is None:
        listed = {name: (summary(text), scales(text)) for name, text in shipped_plans().items()}
        echo(dumps(show.plans_as_json(listed)) if as_json else show.plans(listed))
        return
    from prunecast.sweep import (
        never_pruned,
        never_pruned_lines,
        overview,
        replaced_weights,
        replaced_weights_lines,
        usual_jobs,
    )

    planned = read(plan, scale, data)
    seen, measured = overview(planned), None
    left_dense = list(never_pruned_lines(never_pruned(seen.plan)))
    if not no_estimate:
        from prunecast.sweep import estimation, torch_device

        if torch_device(device).type == "cuda":
            echo("Timing packs of networks, for up to a minute per family ...", err=True)
        measured = estimation.estimate(seen.plan, device)
    at_once = min(jobs or usual_jobs(device, planned.chains), seen.chains) if device == "cpu" else 1
    threads = None
    if measured is not None and device == "cpu":
        threads = estimation.more_threads(seen.plan, at_once)
    if as_json:
        echo(dumps(show.plan_as_json(seen, measured, at_once, left_dense, threads)))
    else:
        notes = [*left_dense, *replaced_weights_lines(replaced_weights(seen.plan))]
        echo(show.plan(seen, measured, at_once, notes, threads))


@click.command()
@click.argument("plan", metavar="PLAN")
@SCALE
@DATA
@STORE
@DEVICE
@JOBS
@click.option(
    "--seconds",
    type=Number(positive=True),
    help="Stop cleanly after this many seconds; run the same command to continue.",
)
@click.option(
    "--plain", is_flag=True, help="On a GPU, train one chain after the other instead of packing them."
)
@cluster_options
@click.option("-o", "--output", type=TABLE, help="CSV file for the table.")
@click.option(
    "--json-lines", type=TABLE, help="Append one line of JSON per event to this file; - is standard output."
)
@JSON
def run(
    plan: str,
    scale: str,
    data: Path | None,
    store: Path,
    device: str,
    jobs: int | None,
    plain: bool,
    output: Path | None,
    json_lines: Path | None,
    seconds: float | None,
    as_json: bool,
    **cluster: Any,
) -> None:
    """Train and prune every chain of PLAN, a TOML file or the name of a plan that ships.

    Ctrl-C and --seconds stop it (exit status 130); run the same command to continue. Finished levels are never trained
    again. A chain that fails does not stop the others (exit status 1); the next run tries it again.
    """
    from prunecast.files import check_folder
    from prunecast.sweep import (
        JsonLines,
        SweepProgress,
        chain_statuses,
        end_line,
        failure_lines,
        inspect,
        run_plan,
        stopped_line,
        usual_jobs,
    )

    check_folder(output)
    if as_json and json_lines is not None and str(json_lines) == "-":
        raise PrunecastError("--json and --json-lines - both write to standard output; leave one out")
    planned = read(plan, scale, data)
    progress = SweepProgress(chain_statuses(planned, store))
    here = {"jobs": jobs is not None, "plain": plain}
    jobs = jobs or usual_jobs(device, planned.chains)
    from prunecast.cli import show
    from prunecast.cli.progress import follow

    stopped, took = False, 0.0
    with JsonLines(json_lines, planned) as lines:
        err = lines.on_standard_output or as_json
        try:
            planned = inspect(planned).plan
            there, executor = placed(planned, cluster, here, device)
            options: dict[str, Any] = {"device": device, "jobs": jobs, "plain": plain, "executor": executor}
            sweep = run_plan(there, store, on_event=lines.event, **options)
            # A fleet left open would train on.
            with stopping_after(seconds), showing_ways_of_training(), contextlib.closing(sweep):
                _start(planned, store, progress, err=err)
                lines.started(progress)
                took = follow(sweep, planned, progress, jobs, err=err)
        except KeyboardInterrupt:
            stopped = True
            echo(stopped_line(store, progress), err=True)
        lines.ended(progress, stopped=stopped)
    if not stopped:
        echo(end_line(progress, took), err=err)
    for line in failure_lines(progress):
        echo(line, err=True)
    if output is not None and progress.levels_done:
        _export(planned, store, output, err=err)
    if as_json:
        echo(dumps(show.run_as_json(planned.name, progress, store, output, stopped=stopped)))
    if stopped:
        raise SystemExit(STOPPED)
    if progress.failed:
        raise SystemExit(1)


class _EchoHandler(logging.Handler):
    """A log handler that shows messages on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show one."""
        echo(record.getMessage(), err=True)


@contextlib.contextmanager
def showing_ways_of_training() -> Iterator[None]:
    """Show how each family is trained on a GPU, and why no faster way is used."""
    log, handler = logging.getLogger("prunecast.paths"), _EchoHandler()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextlib.contextmanager
def stopping_after(seconds: float | None) -> Iterator[None]:
    """Interrupt the body as Ctrl-C does, after this many seconds; None means never."""
    if seconds is None:
        yield
        return

    def stop(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _start(planned: "Plan", store: Path, progress: "SweepProgress", *, err: bool) -> None:
    """Report what is already finished and what was edited."""
    from prunecast.sweep import remember_plan, start_lines

    for line in start_lines(planned, store, progress):
        echo(line, err=err)
    if progress.chains_done < progress.chains:
        remember_plan(planned, store)


@click.command()
@click.argument("plan", metavar="PLAN")
@SCALE
@DATA
@STORE
@click.option("--all", "everything", is_flag=True, help="List every chain, however many there are.")
@JSON
def status(plan: str, scale: str, data: Path | None, store: Path, everything: bool, as_json: bool) -> None:
    """Show the state of PLAN's sweep, also while it runs in another terminal."""
    from prunecast.cli import show
    from prunecast.sweep import chain_statuses

    planned = read(plan, scale, data)
    statuses = chain_statuses(planned, store)
    if as_json:
        echo(dumps(show.status_as_json(planned.name, statuses)))
    else:
        echo(show.status(planned.name, statuses, everything=everything))


@click.command()
@click.argument("plan", metavar="PLAN")
@SCALE
@DATA
@STORE
@click.option("-o", "--output", type=TABLE, required=True, help="CSV file for the table.")
@JSON
def export(plan: str, scale: str, data: Path | None, store: Path, output: Path, as_json: bool) -> None:
    """Write the table of PLAN so far; also while it runs."""
    rows, damaged = _export(read(plan, scale, data), store, output, err=as_json)
    if as_json:
        echo(dumps({"output": str(output), "rows": rows, "damaged": damaged}))
    if damaged:
        raise SystemExit(1)


@click.command()
@click.argument("store", metavar="[STORE]", type=click.Path(path_type=Path), default=Path("prunecast-store"))
@JSON
def check(store: Path, as_json: bool) -> None:
    """Check every file of STORE, and list damaged or inconsistent files with what to do about them.

    Nothing is written, so it may be used while a sweep runs. The exit status is 1 if something is wrong.
    """
    from dataclasses import asdict

    from prunecast.pruning import verify_store
    from prunecast.sweep import check_lines

    found = verify_store(store)
    echo(dumps({**asdict(found), "store": str(store)}) if as_json else "\n".join(check_lines(found)))
    if found.faults:
        raise SystemExit(1)


def _export(planned: "Plan", store: Path, output: Path, *, err: bool = False) -> tuple[int, list[str]]:
    """Write the rows that can be read; report how many, and one line per damaged record."""
    from prunecast.files import is_standard_output
    from prunecast.sweep import chain_statuses, damaged_line, rows_of, write_table

    statuses = chain_statuses(planned, store)
    table, damaged = rows_of(statuses), [status for status in statuses if status.problem]
    if not table and not damaged:
        raise PrunecastError(
            f"no training run of {planned.name} has finished in {store}; run the plan, or name its store with --store"
        )
    write_table(table, output)
    echo(f"{plural(len(table), 'row')} in {output}", err=err or is_standard_output(output))
    lines = [damaged_line(status) for status in damaged]
    for line in lines:
        echo(line, err=True)
    return len(table), lines

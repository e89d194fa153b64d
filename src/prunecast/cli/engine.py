"""The commands of the engine: show a plan, run it, show its status, export its table, and check its store."""

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import echo, import_from
from prunecast.cli.parameters import JSON, Count, Device, Number
from prunecast.cli.placement import placed, placement_options
from prunecast.errors import PrunecastError
from prunecast.files import dumps

if TYPE_CHECKING:
    from prunecast.sweep import Plan

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


def read(source: str, scale: str, data: Path | None = None) -> "Plan":
    """Read a plan; a user's own family may be in this folder or in the plan's."""
    from prunecast.sweep import read_plan

    import_from(source)
    return read_plan(source, scale=scale, data=data)


def of_plan(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument PLAN and the options for its scale, data and store; it gets `plan` and `store`."""

    @click.argument("plan", metavar="PLAN")
    @SCALE
    @DATA
    @STORE
    @functools.wraps(command)
    def with_plan(plan: str, scale: str, data: Path | None, **given: Any) -> None:
        command(read(plan, scale, data), **given)

    return with_plan


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
    from prunecast.sweep import overview, usual_jobs

    planned = read(plan, scale, data)
    seen, measured, threads = overview(planned), None, None
    at_once = min(jobs or usual_jobs(device, planned.chains), seen.chains) if device == "cpu" else 1
    if not no_estimate:
        from prunecast.sweep import estimation, torch_device

        if torch_device(device).type == "cuda":
            echo("Timing packs of networks, for up to a minute per family ...", err=True)
        measured = estimation.estimate(seen.plan, device)
        threads = estimation.more_threads(seen.plan, at_once) if device == "cpu" else None
    if as_json:
        echo(dumps(show.plan_as_json(seen, measured, at_once, threads)))
    else:
        echo(show.plan(seen, measured, at_once, threads))


@click.command()
@of_plan
@DEVICE
@JOBS
@click.option(
    "--seconds",
    type=Number(positive=True),
    help="Stop cleanly after this many seconds; run the same command to continue.",
)
@placement_options
@click.option("-o", "--output", type=TABLE, help="CSV file for the table.")
@click.option(
    "--json-lines", type=TABLE, help="Append one line of JSON per event to this file; - is standard output."
)
@JSON
def run(
    plan: "Plan",
    store: Path,
    output: Path | None,
    json_lines: Path | None,
    seconds: float | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Train and prune every chain of PLAN, a TOML file or the name of a plan that ships.

    Ctrl-C and --seconds stop it (exit status 130); run the same command to continue. Finished levels are never trained
    again. A chain that fails does not stop the others (exit status 1); the next run tries it again.
    """
    from prunecast.cli import show
    from prunecast.cli.progress import Screen
    from prunecast.sweep import Session, inspect, raising_after

    if as_json and json_lines is not None and str(json_lines) == "-":
        raise PrunecastError("--json and --json-lines - both write to standard output; leave one out")
    with Session(plan, store, echo, output=output, json_lines=json_lines, quiet=as_json) as session:
        there = placed(inspect(plan).plan, **where)
        with raising_after(seconds, KeyboardInterrupt), showing_ways_of_training():
            session.begin(there.plan)
            with Screen(there.plan, session.progress, there.jobs, err=session.err) as screen:
                session.run(there.executor, screen.show)
    if as_json:
        echo(dumps(show.run_as_json(session, store, output)))
    if session.exit_status:
        raise SystemExit(session.exit_status)


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


@click.command()
@of_plan
@click.option("--all", "everything", is_flag=True, help="List every chain, however many there are.")
@JSON
def status(plan: "Plan", store: Path, everything: bool, as_json: bool) -> None:
    """Show the state of each chain of PLAN, also while `prunecast run` works on it in another terminal."""
    from prunecast.cli import show
    from prunecast.sweep import chain_statuses

    statuses = chain_statuses(plan, store)
    if as_json:
        echo(dumps(show.status_as_json(plan.name, statuses)))
    else:
        echo(show.status(plan.name, statuses, everything=everything))
        if not any(own.records or own.problem or own.locked for own in statuses):
            echo(f"\n{show.nothing_begun(store)}")


@click.command()
@of_plan
@click.option("-o", "--output", type=TABLE, required=True, help="CSV file for the table.")
@JSON
def export(plan: "Plan", store: Path, output: Path, as_json: bool) -> None:
    """Write the finished training runs of PLAN as a table, also while it runs."""
    from prunecast.sweep import export_rows

    rows, damaged = export_rows(plan, store, output, echo, err=as_json)
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
    from prunecast.sweep import wording

    found = verify_store(store)
    echo(dumps({**asdict(found), "store": str(store)}) if as_json else "\n".join(wording.check_lines(found)))
    if found.faults:
        raise SystemExit(1)

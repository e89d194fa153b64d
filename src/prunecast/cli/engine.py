"""The commands of the engine: look at a plan, run it, show its state, and export its table."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import import_from
from prunecast.cli.cluster import cluster_options, placed
from prunecast.errors import PrunecastError
from prunecast.text import plural

if TYPE_CHECKING:
    from prunecast.sweep import Plan
    from prunecast.sweep.board import Board

STORE = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("prunecast-store"),
    show_default=True,
    help="Folder of the results; chains of several plans may share it.",
)
DEVICE = click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
JOBS = click.option(
    "--jobs", type=click.IntRange(min=1), help="Chains at the same time; as many as cores if not given."
)
SCALE = click.option("--scale", default="full", show_default=True, help="One of the plan's scales, as smoke.")
DATA = click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Folder of the datasets; $PRUNECAST_DATA if not given.",
)
TABLE = click.Path(dir_okay=False, path_type=Path)


def read(source: str, scale: str, data: Path | None = None) -> "Plan":
    """Read a plan; a user's own family may be in this folder or in the plan's."""
    from prunecast.sweep import read_plan

    import_from(source)
    return read_plan(source, scale=scale, data=data)


@click.command()
@click.argument("plan", required=False)
@SCALE
@DEVICE
@JOBS
@click.option("--no-estimate", is_flag=True, help="Do not time any steps.")
def plan(plan: str | None, scale: str, device: str, jobs: int | None, no_estimate: bool) -> None:
    """Show what PLAN would do, and how long it takes here; without PLAN, list the plans that ship.

    A few of its networks are trained for a fraction of a second each to measure their speed; on a GPU, a few packs
    of them as the fleet trains them, which takes up to a minute.
    """
    from prunecast.cli import show
    from prunecast.sweep import shipped_plans
    from prunecast.sweep.plan import scales, summary

    if plan is None:
        listed = {name: (summary(text), scales(text)) for name, text in shipped_plans().items()}
        click.echo(show.plans(listed))
        return
    from prunecast.sweep.executors import usual_jobs
    from prunecast.sweep.overview import overview

    planned = read(plan, scale)
    seen, measured = overview(planned), None
    if not no_estimate:
        from prunecast.sweep.estimate import estimate
        from prunecast.sweep.work import torch_device

        if torch_device(device).type == "cuda":
            click.echo("Timing packs of networks, for up to a minute ...", err=True)
        measured = estimate(planned, device)
    at_once = min(jobs or usual_jobs(device), seen.chains) if device == "cpu" else 1
    click.echo(show.plan(seen, measured, at_once))


@click.command()
@click.argument("plan")
@SCALE
@DATA
@STORE
@DEVICE
@JOBS
@click.option("--plain", is_flag=True, help="On a GPU, one chain after the other instead of a fleet.")
@cluster_options
@click.option("-o", "--output", type=TABLE, help="CSV file for the table.")
def run(
    plan: str,
    scale: str,
    data: Path | None,
    store: Path,
    device: str,
    jobs: int | None,
    plain: bool,
    output: Path | None,
    **cluster: Any,
) -> None:
    """Train and prune every chain of PLAN, a TOML file or the name of a plan that ships.

    Ctrl-C stops; the same command goes on. Finished levels are never trained again. A chain that fails does
    not stop the others, and is tried again by the next run.
    """
    from prunecast.files import check_folder
    from prunecast.sweep import look, run_plan
    from prunecast.sweep.board import Board
    from prunecast.sweep.executors import usual_jobs

    check_folder(output)
    planned = read(plan, scale, data)
    standings = look(planned, store)
    board = Board(standings)
    here = {"jobs": jobs is not None, "plain": plain}
    jobs = jobs or usual_jobs(device)
    from prunecast.cli.progress import follow

    try:
        with placed(planned, cluster, here, device) as (there, executor):
            sweep = run_plan(there, store, device=device, jobs=jobs, plain=plain, executor=executor)
            with contextlib.closing(sweep):  # else a fleet stopped between two events would train on, unheard
                _begin(planned, store, board)
                seconds = follow(sweep, planned, board, jobs)
    except KeyboardInterrupt:
        click.echo(
            f"Stopped. {plural(board.levels_done, 'level', 'is', 'are')} in {store}; the same command goes on.",
            err=True,
        )
        raise SystemExit(130) from None
    _end(board, seconds)
    if output is not None and board.levels_done:
        _export(planned, store, output)
    if board.failed:
        raise SystemExit(1)


def _begin(planned: "Plan", store: Path, board: "Board") -> None:
    """Say what there is already and what has changed."""
    from prunecast.sweep.memory import edited, remember

    if change := edited(planned, store):
        click.echo(change.text)
    done = f"{board.chains_done:,} of {plural(board.chains, 'chain', 'is at its end', 'are at their end')}"
    click.echo(f"{planned.name}: {done}, {plural(board.levels_done, 'level', 'is', 'are')} in {store}.")
    if board.chains_done < board.chains:
        remember(planned, store)


def _end(board: "Board", seconds: float) -> None:
    from prunecast.cli.show import duration

    out = f", {len(board.left_out):,} left out" if board.left_out else ""
    failed = f", {len(board.failed):,} failed" if board.failed else ""
    ended = board.chains - len(board.left_out) - len(board.failed)
    click.echo(f"{plural(ended, 'chain', 'at its end', 'at their end')}{out}{failed}; {duration(seconds)}.")
    for failure in board.failed:
        click.echo(f"- chain {failure.number} failed: {failure.error}", err=True)
    if board.failed:
        folder = "failure.json in its folder of the store"
        click.echo(f"The traceback of a failed chain is {folder}; the next run tries again.", err=True)


@click.command()
@click.argument("plan")
@SCALE
@STORE
@click.option("--all", "everything", is_flag=True, help="List every chain, however many there are.")
def status(plan: str, scale: str, store: Path, everything: bool) -> None:
    """Show the state of PLAN's sweep, also while it runs in another terminal."""
    from prunecast.cli import show
    from prunecast.sweep import look

    planned = read(plan, scale)
    click.echo(show.status(planned.name, look(planned, store), everything=everything))


@click.command()
@click.argument("plan")
@SCALE
@STORE
@click.option("-o", "--output", type=TABLE, required=True, help="CSV file for the table.")
def export(plan: str, scale: str, store: Path, output: Path) -> None:
    """Write the table of PLAN so far; also while it runs."""
    if not _export(read(plan, scale), store, output):
        raise SystemExit(1)


def _export(planned: "Plan", store: Path, output: Path) -> bool:
    """Write what can be read; say what cannot."""
    from prunecast.sweep import look, rows_of, write_table

    standings = look(planned, store)
    table, damaged = rows_of(standings), [standing for standing in standings if standing.problem]
    if not table and not damaged:
        raise PrunecastError(
            f"no training of {planned.name} is finished in {store}; run the plan, or name its store with --store"
        )
    write_table(table, output)
    click.echo(f"{plural(len(table), 'row')} in {output}")
    for standing in damaged:
        click.echo(f"Not in the table, chain {standing.number}: {standing.problem}", err=True)
    return not damaged

"""The commands of the engine: run a plan, and export its table."""

from pathlib import Path

import click

STORE = click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("prunecast-store"),
    show_default=True,
    help="Folder of the results; chains of several plans may share it.",
)


@click.command()
@click.argument("plan")
@STORE
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="CSV file for the table."
)
def run(plan: str, store: Path, device: str, output: Path | None) -> None:
    """Train and prune every chain of PLAN, a TOML file or the name of a plan that ships.

    Ctrl-C stops; the same command goes on. Finished levels are never trained again.
    """
    from prunecast.sweep import export, line, read_plan, run_plan

    planned = read_plan(plan)
    try:
        for progress in run_plan(planned, store, device=device):
            click.echo(line(planned, progress))
    except KeyboardInterrupt:
        click.echo("Stopped; the same command goes on from here.", err=True)
        raise SystemExit(130) from None
    if output is not None:
        click.echo(f"{export(planned, store, output)} rows in {output}")


@click.command()
@click.argument("plan")
@STORE
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="CSV file for the table.",
)
def export(plan: str, store: Path, output: Path) -> None:
    """Write the table of PLAN so far; also while it runs."""
    from prunecast.sweep import export as export_table
    from prunecast.sweep import read_plan

    click.echo(f"{export_table(read_plan(plan), store, output)} rows in {output}")

"""The commands that show: report, figures, demo."""

from pathlib import Path
from typing import Any

import click

from prunecast.cli import echo
from prunecast.cli.options import BEST_LAW, Source, candidate_options, command_line, output, table_source
from prunecast.errors import PrunecastError
from prunecast.files import write_text


@click.command()
@table_source
@BEST_LAW
@output("report.html", "The page, one file.")
@click.option("--target-error", type=float, help="The target that the page shows first.")
@candidate_options
@click.option("--studies/--no-studies", default=True, help="With or without the paper's studies of the law.")
@click.option("--all-studies", is_flag=True, help="Also those that take minutes on large tables.")
def report(source: Source, output: Path, **asked: Any) -> None:
    """Write one page that answers for every target error which network of TABLE's family to train and prune."""
    from rich.console import Console

    from prunecast.report import page

    table, command = source.read(), command_line(click.get_current_context())
    with Console(stderr=True).status("reading the table") as status:  # shown on a terminal only
        made = page(table, command=command, on_step=status.update, **asked)
    write_text(output, made.html)
    echo(f"The page is in {output} ({len(made.html.encode()) / 1e6:.1f} MB).")
    if made.missing:
        echo(made.missing)


@click.command()
@table_source
@BEST_LAW
@output("figures", "Folder for the figures.", folder=True)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure; may be repeated.")
def figures(source: Source, output: Path, **asked: Any) -> None:
    """Draw every figure of the paper that TABLE allows, as PDF, PNG and SVG."""
    from prunecast.report import draw_figures

    try:
        drawn = draw_figures(source.read(), output, **asked)
    except OSError as problem:
        raise PrunecastError(f"{output} cannot be written: {problem.strerror}; choose another path") from None
    for one in drawn:
        echo(f"{one.name}: " + (", ".join(map(str, one.paths)) or f"not drawn; {one.missing}"))


@click.command()
@output("demo", "Folder for the table, the law, the page and the store.", folder=True)
@click.option(
    "--target-error", type=float, default=0.05, show_default=True, help="The largest error accepted."
)
@click.option("--plan", default="digits", show_default=True, help="The plan of the sweep.")
def demo(output: Path, target_error: float, plan: str) -> None:
    """Run everything on two cores: sweep, fit, choice, training the chosen network, and the page."""
    try:
        from prunecast.cli.demo import demo as run
    except ImportError as missing:
        raise PrunecastError(
            f"the demo needs {missing.name}: pip install 'prunecast[train,report]'"
        ) from None
    try:
        run(output, plan=plan, target_error=target_error, say=echo)
    except KeyboardInterrupt:
        raise PrunecastError(f"stopped; the same command goes on with what is in {output}") from None

"""The commands that show: report, figures."""

from pathlib import Path

import click

from prunecast.cli.law import Command, read_table
from prunecast.errors import PrunecastError


def _source(command: Command) -> Command:
    """The arguments that name a table and a law."""
    for option in (
        click.option(
            "--law", type=click.Choice(["eq2", "dip"]), default="eq2", show_default=True, help="Which law."
        ),
        click.option("--chance", type=float, help="Error of guessing, where the dataset is not a known one."),
        click.option("--metric", type=click.Choice(["error", "loss"]), default="error", show_default=True),
        click.option(
            "--where", multiple=True, metavar="COLUMN=VALUE", help="Keep only such rows; may be repeated."
        ),
        click.argument("table"),
    ):
        command = option(command)
    return command


@click.command()
@_source
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page, one file.",
)
@click.option("--target-error", type=float, help="Where the slider stands when the page opens.")
@click.option(
    "--minimise",
    type=click.Choice(["stored", "nonzero", "multiply-adds", "paper"]),
    default="stored",
    show_default=True,
    help="What counts as small.",
)
@click.option(
    "--confidence", type=float, default=0.5, show_default=True, help="Probability that the target is met."
)
@click.option("--num-examples", type=float, help="Training examples; by default the most measured.")
@click.option(
    "--sizes",
    type=click.Choice(["measured", "within", "around"]),
    default="around",
    show_default=True,
    help="Only measured sizes, also those between them, or also beyond them.",
)
@click.option("--studies/--no-studies", default=True, help="With or without the paper's studies of the law.")
@click.option("--all-studies", is_flag=True, help="Also those that take minutes on large tables.")
def report(
    table: str,
    where: tuple[str, ...],
    metric: str,
    chance: float | None,
    law: str,
    output: Path,
    target_error: float | None,
    minimise: str,
    confidence: float,
    num_examples: float | None,
    sizes: str,
    studies: bool,
    all_studies: bool,
) -> None:
    """Write one page that answers for every target error which network of TABLE's family to train and prune."""
    from prunecast.report import page
    from prunecast.report.page import write

    html = page(
        read_table(table, metric, chance, where),
        law=law,
        target_error=target_error,
        minimise=minimise,
        confidence=confidence,
        num_examples=num_examples,
        sizes=sizes,
        studies=studies,
        all_studies=all_studies,
        command=" ".join(["prunecast report", table, *(f"--where {one}" for one in where)]),
    )
    write(output, html)
    click.echo(f"The page is in {output} ({len(html.encode()) / 1e6:.1f} MB).")


@click.command()
@_source
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("figures"),
    show_default=True,
    help="Folder for the figures, PDF and PNG.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this figure; may be repeated.")
def figures(
    table: str,
    where: tuple[str, ...],
    metric: str,
    chance: float | None,
    law: str,
    output: Path,
    only: tuple[str, ...],
) -> None:
    """Draw every figure of the paper that TABLE allows, as PDF and PNG."""
    try:
        from prunecast.report.figures import figures as draw
    except ImportError:
        raise PrunecastError("figures need matplotlib: pip install 'prunecast[report]'") from None
    try:
        drawn = draw(read_table(table, metric, chance, where), output, law=law, only=only)
    except OSError as problem:
        raise PrunecastError(f"{output} cannot be written: {problem.strerror}") from None
    for one in drawn:
        click.echo(f"{one.name}: " + (", ".join(map(str, one.paths)) or f"not drawn; {one.missing}"))


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo"),
    show_default=True,
    help="Folder for the table, the law, the page and the store.",
)
@click.option(
    "--target-error", type=float, default=0.05, show_default=True, help="The largest error accepted."
)
@click.option("--plan", default="digits", show_default=True, help="The plan of the sweep.")
def demo(output: Path, target_error: float, plan: str) -> None:
    """The whole journey on two cores: sweep, fit, choice, the chosen network trained for real, and the page."""
    try:
        from prunecast.demo import demo as journey
    except ImportError as missing:
        raise PrunecastError(
            f"the demo needs {missing.name}: pip install 'prunecast[train,report]'"
        ) from None
    try:
        journey(output, plan=plan, target_error=target_error, say=click.echo)
    except KeyboardInterrupt:
        raise PrunecastError(f"stopped; the same command goes on with what is in {output}") from None

"""The commands that show: report, figures, demo."""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import click

from prunecast.cli import echo
from prunecast.cli.options import (
    BEST_LAW,
    Source,
    candidate_options,
    command_line,
    output,
    table_source,
)
from prunecast.cli.parameters import JSON, Number, refuse_with
from prunecast.errors import PrunecastError
from prunecast.files import dumps, write_text


@click.command()
@output("report.html", "File for the page.")
@click.option(
    "--target-error", type=Number(), help="The target that the page shows first, such as 0.12 or 12%."
)
@candidate_options
@click.option(
    "--studies/--no-studies", default=True, help="Whether to include the paper's studies of the law."
)
@click.option("--all-studies", is_flag=True, help="Also include studies that take minutes on large tables.")
@BEST_LAW
@table_source
@JSON
def report(source: Source, output: Path, as_json: bool, **asked: Any) -> None:
    """Write one page that shows, for every target error, which network of TABLE's family to train and prune."""
    from rich.console import Console

    from prunecast.report import page

    if not asked["studies"]:
        refuse_with("--no-studies", "leaves all studies out", "all_studies")
    table, command = source.read(), command_line(click.get_current_context())
    with Console(stderr=True).status("reading the table") as status:  # shown on a terminal only
        made = page(table, command=command, on_step=status.update, **asked)
    write_text(output, made.html)
    if as_json:
        size = len(made.html.encode())
        echo(dumps({"output": str(output), "bytes": size, "missing": made.missing or None}))
        return
    echo(f"The page is in {output} ({len(made.html.encode()) / 1e6:.1f} MB).")
    if made.missing:
        echo(made.missing)


@click.command()
@output("figures", "Folder for the figures.", folder=True)
@click.option(
    "--paper",
    is_flag=True,
    help="Draw the paper's figures 1 to 19 instead, in their layout, with Eq. 1 and Eq. 2.",
)
@click.option("--only", multiple=True, metavar="NAME", help="Draw only this figure; may be repeated.")
@click.option("--latex", is_flag=True, help="Also write a .tex file with a figure environment for each.")
@BEST_LAW
@table_source
@JSON
def figures(source: Source, output: Path, paper: bool, as_json: bool, **asked: Any) -> None:
    """Draw figures of TABLE and its law as PDF, PNG and SVG; figures that TABLE does not allow are listed."""
    from prunecast.laws import AUTO, DEFAULT_LAW
    from prunecast.report import draw_figures, draw_paper_figures

    if paper and asked.pop("law") not in (AUTO, DEFAULT_LAW):
        raise PrunecastError("--paper draws Eq. 1 and Eq. 2, so it takes no other --law.")
    draw = draw_paper_figures if paper else draw_figures
    try:
        drawn = draw(source.read(), output, **asked)
    except OSError as problem:
        raise PrunecastError(f"{output} cannot be written: {problem.strerror}; choose another path") from None
    if as_json:
        echo(
            dumps({"figures": [asdict(one) | {"paths": [str(path) for path in one.paths]} for one in drawn]})
        )
        return
    for one in drawn:
        echo(f"{one.name}: " + (", ".join(map(str, one.paths)) or f"not drawn; {one.missing}"))
        for why in one.left_out:
            echo(f"  without {why}")


@click.command()
@output("demo", "Folder for the table, the law, the page and the store.", folder=True)
@click.option(
    "--target-error", type=Number(), default=0.05, show_default=True, help="The largest error you accept."
)
@click.option("--plan", metavar="PLAN", default="demo", show_default=True, help="The plan of the sweep.")
@JSON
def demo(output: Path, target_error: float, plan: str, as_json: bool) -> None:
    """Run everything once: train a small grid, fit the law, choose a network, train it, and write the page."""
    try:
        from prunecast.cli.demo import demo as run
    except ImportError as missing:
        raise PrunecastError(
            f"the demo needs {missing.name}: pip install 'prunecast[train,report]'"
        ) from None
    try:
        card = run(output, plan=plan, target_error=target_error, say=partial(echo, err=as_json), err=as_json)
    except KeyboardInterrupt:
        raise PrunecastError(f"stopped; run the same command to continue with what is in {output}") from None
    if as_json:
        echo(dumps({"output": str(output), "card": None if card is None else card.as_json()}))

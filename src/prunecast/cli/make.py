"""The command that makes the chosen network."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli.answer import choose, law_of
from prunecast.cli.engine import DATA, DEVICE, SCALE, read
from prunecast.cli.options import Source, gathered
from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from prunecast.export import Card, Order
    from prunecast.sweep.board import Board
    from prunecast.sweep.events import Event
    from prunecast.sweep.plan import Plan

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option("--plan", required=True, help="TOML file or shipped plan: family, data, recipe and method.")
@SCALE
@DATA
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder for the network and its card.")
@click.option("--store", type=FOLDER, help="Folder of the trainings.  [default: store in the output]")
@DEVICE
@click.option(
    "--replicate", type=click.IntRange(min=0), help="The seed; by default one that the plan does not have."
)
@gathered
def make(
    source: Source,
    as_json: bool,
    law: str | None,
    plan: str,
    scale: str,
    data: Path | None,
    output: Path,
    **asked: Any,
) -> None:
    """Train and prune the network that `choose` names; TABLE is a table or a law that `prunecast fit -o` saved.

    Ctrl-C stops; the same command goes on. The network is pruned to exactly the chosen density and written as
    safetensors, dense and sparse, with a card that puts its measured error beside the predicted one.
    """
    try:
        from prunecast.export import order
    except ImportError as missing:
        raise PrunecastError(f"make needs {missing.name}: pip install 'prunecast[train]'") from None
    fitted = law_of(source, law)
    placed = order(fitted, read(plan, scale, data), output, **asked)
    card = _made(placed, silent=as_json)
    from prunecast.cli import show_made
    from prunecast.laws import dumps

    click.echo(dumps(card.as_json()) if as_json else show_made.card(card, output))


make.params[:0] = [param for param in choose.params if param.name != "frontier"]


def _made(placed: "Order", *, silent: bool) -> "Card":
    from prunecast.cli import show_made
    from prunecast.cli.progress import follow
    from prunecast.export import finish, silently, train

    def told(events: "Iterable[Event]", plan: "Plan", board: "Board") -> None:
        follow(events, plan, board, 1)

    if not silent:
        click.echo(show_made.order(placed))
    try:
        train(placed, silently if silent else told)
        return finish(placed)
    except KeyboardInterrupt:
        click.echo(f"Stopped. Finished levels are in {placed.store}; the same command goes on.", err=True)
        raise SystemExit(130) from None

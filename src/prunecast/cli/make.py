"""The command that makes the chosen network."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import echo, stoppable
from prunecast.cli.answer import choose
from prunecast.cli.engine import DATA, DEVICE, SCALE, read
from prunecast.cli.options import Source, gathered
from prunecast.cli.parameters import Count
from prunecast.files import dumps
from prunecast.report import Section, choice, terminal

if TYPE_CHECKING:
    from prunecast.export import Card, Order
    from prunecast.sweep import Executor

FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.option(
    "--plan",
    metavar="PLAN",
    required=True,
    help="TOML file or shipped plan: family, data, recipe and method.",
)
@SCALE
@DATA
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder for the network and its card.")
@click.option(
    "--store",
    metavar="STORE",
    type=FOLDER,
    help="Folder for the training runs.  [default: store in the output]",
)
@DEVICE
@click.option("--replicate", type=Count(0), help="The seed; by default one that the plan does not use.")
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

    Ctrl-C stops it; run the same command to continue. The network is pruned to exactly the chosen density and written
    as safetensors, dense and sparse, as code that needs only torch and safetensors and, with the extra onnx, as an
    ONNX file, with a card that compares its measured and predicted errors. If no network meets the target,
    nothing is trained and the exit status is 1.
    """
    from prunecast.export import finish, order, train

    fitted = source.fit(law)
    placed = order(fitted, read(plan, scale, data), output, **asked)
    with stoppable(placed.store):
        if as_json:
            train(placed)
            card = finish(placed)
        else:
            echo(order_text(placed))
            card = make_shown(placed)
    echo(dumps(card.as_json()) if as_json else f"\n{card_text(card, output)}")


_asked = [param for param in choose.params if param.name not in ("frontier", "as_latex")]
_table = next(place for place, param in enumerate(_asked) if param.name == "table")
make.params[:] = [*_asked[:_table], *make.params, *_asked[_table:]]


def make_shown(placed: "Order", *, err: bool = False, executor: "Executor | None" = None) -> "Card":
    """Make a network, and show its training on the screen."""
    from prunecast.cli.progress import Screen
    from prunecast.export import finish, train
    from prunecast.sweep import SweepProgress, chain_statuses

    progress = SweepProgress(chain_statuses(placed.plan, placed.store))
    with Screen(placed.plan, progress, 1, err=err) as screen:
        train(placed, screen.show, progress=progress, executor=executor)
    return finish(placed)


def order_text(placed: "Order") -> str:
    """The choice, and the training that it takes."""
    spec = placed.chain.spec
    training = (
        f"Training it on {spec.num_examples:,} examples of {spec.dataset} with the recipe {spec.recipe.name} and the "
        f"method {spec.method.name}, replicate {spec.replicate}: {_levels(placed)}."
    )
    return terminal.text(choice(placed.choice), Section(title=training))


def _levels(placed: "Order") -> str:
    final = f"{placed.chain.spec.final_nonzero:,}"
    if placed.level is None:
        return f"level by level, until {final} weights or fewer are left"
    return (
        f"levels 0 to {placed.level}, the last with {final} weights and {placed.never_pruned:,} parameters that are "
        "never pruned"
    )


def card_text(made: "Card", folder: Path) -> str:
    """What was measured and what was predicted, the sizes, and where the files are."""
    from prunecast.export import card_section

    return terminal.text(card_section(made, folder))

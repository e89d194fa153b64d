"""The command that makes the chosen network."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prunecast.cli import echo
from prunecast.cli.answer import choose, law_of
from prunecast.cli.engine import DATA, DEVICE, SCALE, read
from prunecast.cli.options import Source, gathered
from prunecast.cli.parameters import Count
from prunecast.errors import PrunecastError
from prunecast.files import dumps
from prunecast.report import Fact, Grid, Section, choice, terminal
from prunecast.wording import numbers

if TYPE_CHECKING:
    from prunecast.export import Card, Order
    from prunecast.sweep import Event, Plan, SweepProgress

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
    try:
        from prunecast.export import order
    except ImportError as missing:
        raise PrunecastError(f"make needs {missing.name}: pip install 'prunecast[train]'") from None
    fitted = law_of(source, law)
    placed = order(fitted, read(plan, scale, data), output, **asked)
    card = _made(placed, silent=as_json)
    echo(dumps(card.as_json()) if as_json else f"\n{card_text(card, output)}")


_asked = [param for param in choose.params if param.name not in ("frontier", "as_latex")]
_table = next(place for place, param in enumerate(_asked) if param.name == "table")
make.params[:] = [*_asked[:_table], *make.params, *_asked[_table:]]


def _made(placed: "Order", *, silent: bool) -> "Card":
    from prunecast.cli.progress import follow
    from prunecast.export import finish, silently, train

    def shown(events: "Iterable[Event]", plan: "Plan", progress: "SweepProgress") -> None:
        follow(events, plan, progress, 1)

    if not silent:
        echo(order_text(placed))
    try:
        train(placed, silently if silent else shown)
        return finish(placed)
    except KeyboardInterrupt:
        echo(f"Stopped. Finished levels are in {placed.store}; run the same command to continue.", err=True)
        raise SystemExit(130) from None


def order_text(placed: "Order") -> str:
    """The choice, and what it takes."""
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
    from prunecast.export import (
        COMPARED,
        compared,
        dead,
        latency_verdict,
        no_onnx,
        sizes_header,
        title,
        verdict,
        zeros,
    )

    counts, disk = made.counts, made.disk
    rows = [
        ["prunable weights", f"{counts.weights:,}", f"{counts.nonzero:,}"],
        ["parameters, with biases and normalisation", f"{counts.parameters:,}", f"{counts.stored:,}"],
        ["multiply-adds per image", f"{counts.multiply_adds:,}", f"{counts.multiply_adds_kept:,}"],
        ["bytes on disk", f"{disk.dense:,}", f"{disk.sparse:,}"],
    ]
    if made.network.units is not None:
        rows[-1] = ["bytes on disk", "", f"{disk.dense:,}"]
    header = [word.capitalize() for word in sizes_header(made)]
    return terminal.text(
        Section(
            title=f"Made: {title(made)}.",
            text=[verdict(made)],
            grids=[
                *(
                    [Grid(header=list(map(str.capitalize, COMPARED)), rows=compared(made))]
                    if made.latency
                    else []
                ),
                Grid(header=["Size", *header], rows=rows),
            ],
            notes=[
                *([latency_verdict(made.latency)] if made.latency else []),
                *([dead(made)] if counts.dead_layers else []),
                zeros(made),
                *([no_onnx(made.code)] if disk.onnx is None else []),
                f"The network and its card are in {folder}; see README.md there for details.",
            ],
        )
    )


def made_section(card: "Card", number: int = 1) -> Section:
    """One of the networks that were made, for the page: its measured error beside the predicted one."""
    from prunecast.export import title, value, verdict

    promised, metric = card.predicted, card.predicted.metric
    measured = "inside the interval" if card.measured.in_interval else "outside the interval"
    runs = f"95% of new training runs in {numbers.interval(promised.interval)}"
    return Section(
        name="made" if number == 1 else f"made-{number}",
        title="The chosen network, trained",
        text=[f"{title(card)}, trained with a seed that the law has not seen. {verdict(card)}"],
        facts=[
            Fact(f"Predicted {metric.word}", numbers.estimate(promised.value, promised.interval), runs),
            Fact(f"Measured {metric.word}", numbers.error(value(card)), measured),
            Fact("Bytes on disk", f"{card.disk.sparse:,}", f"without zeros; {card.disk.dense:,} with them"),
        ],
    )

"""A network to be made and a made one, as text for people."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from prunecast.cli.show import bullets, grid, render
from prunecast.cli.show_answer import choice

if TYPE_CHECKING:
    from prunecast.export import Card, Order


def order(placed: "Order") -> str:
    """The choice, and what it takes."""
    spec = placed.chain.spec
    words = (
        f"Training it on {spec.num_examples:,} examples of {spec.dataset} with the recipe {spec.recipe.name} and the "
        f"method {spec.method.name}, replicate {spec.replicate}: levels 0 to {placed.level}, the last with "
        f"{spec.final_nonzero:,} weights."
    )
    return "\n".join([choice(placed.choice), "", render([Text(words)])])


def card(made: "Card", folder: Path) -> str:
    """What was measured beside what was predicted, the sizes, and where the files are."""
    from prunecast.export import ZEROS, title, verdict

    counts, disk = made.counts, made.disk
    rows = [
        ["prunable weights", f"{counts.weights:,}", f"{counts.nonzero:,}"],
        ["parameters, with biases and normalisation", f"{counts.parameters:,}", f"{counts.stored:,}"],
        ["multiply-adds an image", f"{counts.multiply_adds:,}", f"{counts.multiply_adds_kept:,}"],
        ["bytes on disk", f"{disk.dense:,}", f"{disk.sparse:,}"],
    ]
    return render(
        [
            "",
            Text(f"Made: {title(made)}."),
            Text(verdict(made)),
            "",
            grid(["size", "dense", "without zeros"], rows),
            "",
            *bullets([ZEROS]),
            "",
            Text(f"The network and its card are in {folder}: card.md says the rest."),
        ]
    )

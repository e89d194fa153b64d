"""Measured tables that ship with the package, each with a page of provenance beside it.

A table is asked for by its own name, or by the pair of dataset and family it was measured on (`cifar10-resnet`). A pair
stands for the table that says so (`preferred`), because its networks were trained to the end, or else for its fullest:
the one with the most rows of chains that have left their low plateau. A sweep in progress may have more rows already
and tell less of the law.
"""

import csv
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from prunecast.table.frame import Table

FOLDER = Path(__file__).parent
CHAIN = ("depth", "width", "num_examples", "replicate")
RISEN = 1.1
"""The low plateau ends where the error is this multiple of the unpruned one."""


def names() -> tuple[str, ...]:
    """Names of the shipped tables, in alphabetical order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.csv")))


def pairs() -> dict[str, tuple[str, ...]]:
    """The pairs of dataset and family that were measured, and the tables of each, what the pair stands for first."""
    found: dict[str, list[str]] = {}
    for name in names():
        page = _page(name)
        if "pair" in page:
            found.setdefault(str(page["pair"]), []).append(name)
    return {pair: tuple(sorted(own, key=_rank)) for pair, own in sorted(found.items())}


def _rank(name: str) -> tuple[bool, int, int, str]:
    """Who is preferred comes first, then fuller tables, then those with more rows."""
    page = _page(name)
    return not page.get("preferred", False), -telling(name), -int(str(page["rows"])), name


@functools.cache
def telling(name: str) -> int:
    """How many rows of a table belong to chains that have left their low plateau."""
    chains: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            chain = tuple(row.get(column, "") for column in CHAIN)
            chains.setdefault(chain, []).append((float(row["density"]), float(row["error"])))
    return sum(len(rows) for rows in chains.values() if _left(rows))


def _left(rows: Sequence[tuple[float, float]]) -> bool:
    """Whether the sparsest network of a chain errs more than its densest, by what ends the low plateau."""
    return min(rows)[1] > RISEN * max(rows)[1]


def resolve(name: str) -> str:
    """The name of a table, from its own or from a pair's."""
    if name in names():
        return name
    by_pair = pairs()
    if name in by_pair:
        return by_pair[name][0]
    raise PrunecastError(f"no shipped table is called {name!r}; there are: {', '.join((*by_pair, *names()))}")


def known(name: str) -> bool:
    """Whether a table, or a pair, of this name ships."""
    return name in names() or name in pairs()


def path(name: str) -> Path:
    """The file of a shipped table."""
    return FOLDER / f"{resolve(name)}.csv"


def provenance(name: str) -> dict[str, object]:
    """Where a table comes from: plan, code, device, date, seconds, recipe, and what to beware of."""
    return _page(resolve(name))


def recipes(pair: str) -> dict[str, str]:
    """The recipes that a pair was measured with, and the preferred or fullest table of each."""
    found: dict[str, str] = {}
    for name in pairs().get(pair, ()):
        found.setdefault(str(_page(name)["recipe"]).partition(":")[0], name)
    return found


def measured(pair: str, recipe: str | None = None) -> "Table":
    """The measured table that a pair stands for, or that of a recipe, one of `recipes(pair)`."""
    from prunecast.table import read

    if recipe is None:
        return read(resolve(pair))
    by_recipe = recipes(pair)
    if recipe not in by_recipe:
        known_ones = ", ".join(by_recipe) or "none at all"
        raise PrunecastError(f"{pair} was not measured with the recipe {recipe!r}; there are: {known_ones}")
    return read(by_recipe[recipe])


def cifar10_resnet(recipe: str | None = None) -> "Table":
    """CIFAR-10 ResNets: the measured table of a recipe, by default the paper's."""
    return measured("cifar10-resnet", recipe)


def __getattr__(name: str) -> "Callable[[str | None], Table]":
    """Every other pair as a function too: `svhn_vgg()` is `measured("svhn-vgg")`."""
    pair = name.replace("_", "-")
    if pair not in pairs():
        raise AttributeError(f"module 'prunecast.tables' has no attribute {name!r}")
    return functools.partial(measured, pair)


def _page(name: str) -> dict[str, object]:
    page: dict[str, object] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return page

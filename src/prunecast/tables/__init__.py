"""Measured tables that ship with the package, each with a page of provenance beside it.

A table is asked for by its own name, or by the pair of dataset and family it was measured on (`cifar10-resnet`), which
stands for the pair's largest table.
"""

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prunecast.errors import PrunecastError

if TYPE_CHECKING:
    from prunecast.table.frame import Table

FOLDER = Path(__file__).parent
PUBLISHED = FOLDER / "published"
"""Points read off published figures, to compare with; not tables to fit."""


def names() -> tuple[str, ...]:
    """Names of the shipped tables, in alphabetical order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.csv")))


def pairs() -> dict[str, tuple[str, ...]]:
    """The pairs of dataset and family that were measured, and the tables of each, the largest first."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in names():
        page = _page(name)
        if "pair" in page:
            found.setdefault(str(page["pair"]), []).append((-int(str(page["rows"])), name))
    return {pair: tuple(name for _, name in sorted(own)) for pair, own in sorted(found.items())}


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
    """The recipes that a pair was measured with, and the largest table of each."""
    found: dict[str, str] = {}
    for name in pairs().get(pair, ()):
        found.setdefault(str(_page(name)["recipe"]).partition(":")[0], name)
    return found


def measured(pair: str, recipe: str | None = None) -> "Table":
    """The measured table of a pair, by default its largest; `recipe` names one of `recipes(pair)`."""
    from prunecast.table import read

    if recipe is None:
        return read(resolve(pair))
    by_recipe = recipes(pair)
    if recipe not in by_recipe:
        known_ones = ", ".join(by_recipe) or "none at all"
        raise PrunecastError(f"{pair} was not measured with the recipe {recipe!r}; there are: {known_ones}")
    return read(by_recipe[recipe])


def cifar10_resnet(recipe: str | None = None) -> "Table":
    """CIFAR-10 ResNets: the measured table of a recipe, by default the largest."""
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

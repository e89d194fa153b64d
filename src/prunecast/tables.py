"""The measured tables that ship with the package: `prunecast.tables.cifar10_resnet()` and the like."""

import functools
from collections.abc import Callable

from prunecast.errors import PrunecastError
from prunecast.table import Table, read, shipped

FOLDER = shipped.FOLDER
informative_rows, known, names, pairs = shipped.informative_rows, shipped.known, shipped.names, shipped.pairs
path, provenance, recipes, resolve = shipped.path, shipped.provenance, shipped.recipes, shipped.resolve

__all__ = [
    "FOLDER",
    "cifar10_resnet",
    "informative_rows",
    "known",
    "measured",
    "names",
    "pairs",
    "path",
    "provenance",
    "recipes",
    "resolve",
]


def measured(pair: str, recipe: str | None = None) -> Table:
    """Read a measured table that ships.

    Args:
        pair: a pair of dataset and family, such as "cifar10-resnet", or the name of a table.
        recipe: one of `recipes(pair)`; by default the first of them.

    Returns:
        The table.

    Raises:
        PrunecastError: no such table ships, or the pair was not measured with this recipe.
    """
    if recipe is None:
        return read(resolve(pair))
    by_recipe = recipes(pair)
    if recipe not in by_recipe:
        available = ", ".join(by_recipe) or "none"
        raise PrunecastError(
            f"{pair} was not measured with the recipe {recipe!r}; its recipes are: {available}."
        )
    return read(by_recipe[recipe])


def cifar10_resnet(recipe: str | None = None) -> Table:
    """CIFAR-10 ResNets: the measured table of a recipe, by default the paper's."""
    return measured("cifar10-resnet", recipe)


def __getattr__(name: str) -> Callable[[str | None], Table]:
    """Every other pair as a function, too: `svhn_vgg()` is `measured("svhn-vgg")`."""
    pair = name.replace("_", "-")
    if pair not in pairs():
        raise AttributeError(f"module 'prunecast.tables' has no attribute {name!r}")
    return functools.partial(measured, pair)


def __dir__() -> list[str]:
    """The public names, and a function for each measured pair."""
    return sorted({*__all__, *(pair.replace("-", "_") for pair in pairs())})

"""Predict a pruned network's error before you train it."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prunecast import tables
    from prunecast.choice import Choice, choose, frontier, optimum
    from prunecast.errors import PrunecastError
    from prunecast.export import load_masks, load_network
    from prunecast.laws import Fit, compare, fit, fit_each, load
    from prunecast.report import describe
    from prunecast.table import Table, read

__all__ = [
    "Choice",
    "Fit",
    "PrunecastError",
    "Table",
    "__version__",
    "choose",
    "compare",
    "describe",
    "fit",
    "fit_each",
    "frontier",
    "load",
    "load_masks",
    "load_network",
    "optimum",
    "read",
    "tables",
]

_HOMES = {
    "PrunecastError": "prunecast.errors",
    "Table": "prunecast.table",
    "read": "prunecast.table",
    **dict.fromkeys(("Fit", "compare", "fit", "fit_each", "load"), "prunecast.laws"),
    **dict.fromkeys(("load_masks", "load_network"), "prunecast.export"),
    "describe": "prunecast.report",
    **dict.fromkeys(("Choice", "choose", "frontier", "optimum"), "prunecast.choice"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the engine needs no pandas and the law no torch."""
    from importlib import import_module

    if name == "tables":
        return import_module("prunecast.tables")
    if name not in _HOMES:
        raise AttributeError(f"module 'prunecast' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Predict a pruned network's error before you train it.

>>> import prunecast
>>> fit = prunecast.fit("cifar10-resnet")  # a shipped table, a file, a DataFrame or a Table
>>> print(fit.summary())
>>> fit.predict(density=0.1, depth=20, width=1).error
>>> prunecast.choose(fit, target_error=0.12)
"""

from typing import TYPE_CHECKING, cast

from prunecast.display import Display, set_display

__version__ = "0.1.0"

if TYPE_CHECKING:
    from prunecast import tables
    from prunecast.choice import Choice, Frontier, Optimum, choose, frontier, optimum, predict
    from prunecast.errors import PrunecastError
    from prunecast.export import load_masks, load_network
    from prunecast.laws import Comparison, Fit, Prediction, compare, fit, fit_each, load
    from prunecast.report import describe
    from prunecast.table import Table, read

__all__ = [
    "Choice",
    "Comparison",
    "Fit",
    "Frontier",
    "Optimum",
    "Prediction",
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
    "predict",
    "read",
    "tables",
]

_LAWS = ("Comparison", "Fit", "Prediction", "compare", "fit", "fit_each", "load")
_CHOICE = ("Choice", "Frontier", "Optimum", "choose", "frontier", "optimum", "predict")
_HOMES = {
    "PrunecastError": "prunecast.errors",
    "Table": "prunecast.table",
    "read": "prunecast.table",
    **dict.fromkeys(_LAWS, "prunecast.laws"),
    **dict.fromkeys(("load_masks", "load_network"), "prunecast.export"),
    "describe": "prunecast.report",
    **dict.fromkeys(_CHOICE, "prunecast.choice"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the engine needs no pandas and the law no torch."""
    from importlib import import_module

    if name == "tables":
        return import_module("prunecast.tables")
    if name not in _HOMES:
        raise AttributeError(f"module 'prunecast' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, also those that are not imported yet."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _report() -> Display:
    from importlib import import_module

    return cast("Display", import_module("prunecast.report"))


set_display(_report)

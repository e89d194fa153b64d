"""Users' own modules: imported by name, from `module:attribute` or from the environment.

A module that registers a law or a dataset is imported when PRUNECAST_PLUGINS names it (several are separated by
commas), so that the command line knows what it registers.
"""

import functools
import importlib
import os
import sys
from pathlib import Path

from prunecast.errors import PrunecastError

VARIABLE = "PRUNECAST_PLUGINS"


def load_attribute(name: str, kind: str) -> object:
    """What `package.module:attribute` names; `kind` says in messages what it should be."""
    place, _, attribute = name.partition(":")
    module = _imported(place, f"{kind} {name!r}")
    if not hasattr(module, attribute):
        raise PrunecastError(f"{kind} {name!r}: the module {place} has no attribute {attribute!r}.")
    return getattr(module, attribute)


@functools.cache
def load_plugins() -> None:
    """Import the modules that PRUNECAST_PLUGINS names, once; they may also be in the current folder."""
    names = [part.strip() for part in os.environ.get(VARIABLE, "").split(",") if part.strip()]
    if names and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    for name in names:
        _imported(name, f"the plug-in {name!r} of {VARIABLE}")


def _imported(name: str, what: str) -> object:
    try:
        return importlib.import_module(name)
    except (ModuleNotFoundError, ValueError) as missing:
        remedy = "set PYTHONPATH to its folder or install its package"
        raise PrunecastError(f"cannot import {what}: {missing}; {remedy}.") from missing

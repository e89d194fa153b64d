"""Users' own modules: imported by name, from `module:attribute` or from the environment.

A module that registers a law, a dataset or a pruning criterion is imported when PRUNECAST_PLUGINS names it
(several are separated by commas), so that the command line knows what it registers.
"""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from prunecast.errors import PrunecastError, require, require_one_of, require_text
from prunecast.text import did_you_mean, listed

VARIABLE = "PRUNECAST_PLUGINS"
MOST_NAMED = 8
"""Functions of a module that a message names."""
T = TypeVar("T")


def load_attribute(name: str, kind: str) -> object:
    """What `package.module:attribute` names; `kind` says in messages what it should be."""
    place, _, attribute = name.partition(":")
    module = _imported(place, f"{kind} {name!r}")
    if not hasattr(module, attribute):
        raise PrunecastError(
            f"{kind} {name!r}: the module {place} has no attribute {attribute!r}.{_defined(module, attribute)}"
        )
    return getattr(module, attribute)


def _defined(module: object, attribute: str) -> str:
    """A sentence about the functions and classes that a module defines, or the one with a similar name."""
    place = getattr(module, "__name__", "")
    names = [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", None) == place and not name.startswith("_")
    ]
    some = f" It defines {listed(names)}." if 0 < len(names) <= MOST_NAMED else ""
    return did_you_mean(attribute, names) or some


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


def require_registered(place: str, name: object, known: Sequence[str]) -> None:
    """Refuse what is neither one of the known names, which plug-ins may add to, nor `package.module:attribute`."""
    require_text(place, name)
    assert isinstance(name, str)
    module, colon, attribute = name.partition(":")
    if module and attribute:
        return
    if name not in known:
        load_plugins()
    require(
        not colon and name in known,
        f"{place} is {name!r}; choose one of {', '.join(known)}, or name your own as package.module:attribute.",
    )


def function(_: str, found: object) -> Any:
    """An imported function or class, as it is: the entry of a `Registry` of functions."""
    return found if callable(found) else None


class Registry(Generic[T]):
    """Entries of one kind by name: registered ones, and a user's own as `package.module:attribute`."""

    def __init__(
        self, kind: str, names: list[str], wanted: str, entry: Callable[[str, object], T | None]
    ) -> None:
        """`names` lists all known names; `entry` makes an entry of an imported attribute, or None of a wrong one.

        `wanted` says in messages what the attribute must be.
        """
        self._kind, self._names, self._wanted, self._entry = kind, names, wanted, entry
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        """Register an entry; one of the same name is replaced."""
        self._entries[name] = entry
        if name not in self._names:
            self._names.append(name)
        return entry

    def get(self, name: str) -> T:
        """The entry of this name, or the one that `package.module:attribute` names."""
        if ":" in name:
            found = load_attribute(name, self._kind)
            if (entry := self._entry(name, found)) is None:
                what = f"{self._kind} {name!r} is {type(found).__name__}"
                raise PrunecastError(f"{what}; it must be {self._wanted}.")
            return entry
        if name not in self._entries:
            load_plugins()
        require_one_of(f"The {self._kind}", name, self._entries)
        return self._entries[name]

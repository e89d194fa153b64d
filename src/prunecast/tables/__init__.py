"""Measured tables that ship with the package, each with a page of provenance beside it."""

import json
from pathlib import Path

from prunecast.errors import PrunecastError

_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Names of the shipped tables, in alphabetical order."""
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.csv")))


def path(name: str) -> Path:
    """The file of a shipped table."""
    if name not in names():
        raise PrunecastError(f"no shipped table is called {name!r}; there are: {', '.join(names())}")
    return _FOLDER / f"{name}.csv"


def provenance(name: str) -> dict[str, object]:
    """Where a shipped table comes from: who measured what, with which recipe, and what to beware of."""
    page: dict[str, object] = json.loads(path(name).with_suffix(".json").read_text(encoding="utf-8"))
    return page

"""The files of the measured tables that ship with the package, each with a JSON file of provenance.

A table has its own name, and the pair of dataset and family that was measured (`cifar10-resnet`). A pair means the
preferred table, whose networks were trained to the end. Without one, it means the table with the most rows of chains
whose error has risen, because an unfinished sweep can have more rows that tell less about the law.
"""

import csv
import functools
import json
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.text import did_you_mean

FOLDER = Path(__file__).parent / "shipped_data"
CHAIN = ("depth", "width", "num_examples", "replicate")
RISEN = 1.1
"""The low plateau ends where the error is this multiple of the unpruned one."""
MOVED = {
    "cifar10-resnet": (
        "cifar10-resnet-160ep",
        "cifar10-resnet20-24ep",
        "cifar10-resnet20-24ep-fleet",
        "cifar10-resnet20-24ep-none",
        "cifar10-resnet20-24ep-none-rate-rewinding",
        "cifar10-resnet20-24ep-random",
        "cifar10-resnet20-steps",
    ),
}
"""Tables that no longer ship, by the pair to use instead; the repository has them in benchmarks/tables."""


def names() -> tuple[str, ...]:
    """Names of the shipped tables, in alphabetical order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.csv")))


def pairs() -> dict[str, tuple[str, ...]]:
    """The tables of each measured pair of dataset and family; the pair means the first one."""
    found: dict[str, list[str]] = {}
    for name in names():
        if (pair := _page(name).get("pair")) is not None:
            found.setdefault(str(pair), []).append(name)
    return {pair: tuple(sorted(own, key=_rank)) for pair, own in sorted(found.items())}


def _rank(name: str) -> tuple[bool, int, int, str]:
    """Preferred tables first, then those with more informative rows, then those with more rows."""
    page = _page(name)
    return not page.get("preferred", False), -informative_rows(name), -int(str(page["rows"])), name


@functools.cache
def informative_rows(name: str) -> int:
    """How many rows of a table belong to chains whose error has risen above the low plateau."""
    chains: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in _rows(name):
        chain = tuple(row.get(column, "") for column in CHAIN)
        chains.setdefault(chain, []).append((float(row["density"]), float(row["error"])))
    risen = (rows for rows in chains.values() if min(rows)[1] > RISEN * max(rows)[1])
    return sum(map(len, risen))


def known(name: str) -> bool:
    """Whether a table or a pair of this name ships."""
    return name in names() or name in pairs()


def resolve(name: str) -> str:
    """The name of a table, from its own name or from a pair's."""
    by_pair = pairs()
    if name in names():
        return name
    if name in by_pair:
        return by_pair[name][0]
    raise PrunecastError(unknown(name))


def unknown(name: str) -> str:
    """The message for an unknown name: which name to use instead, and which tables there are."""
    for pair, own in MOVED.items():
        if name in own:
            return (
                f"the table {name!r} no longer ships with prunecast. Use {pair}. The old table is "
                f"benchmarks/tables/{name}.csv in prunecast's repository."
            )
    available = (*pairs(), *names())
    guess = did_you_mean(name, available)
    return f"no table that ships with prunecast is called {name!r}.{guess} The tables are {', '.join(available)}."


def path(name: str) -> Path:
    """The file of a shipped table."""
    return FOLDER / f"{resolve(name)}.csv"


def provenance(name: str) -> dict[str, object]:
    """Where a table comes from.

    Args:
        name: a table, or a pair of dataset and family such as "cifar10-resnet".

    Returns:
        Plan, code, device, date, seconds, recipe, and known limitations, by name.

    Raises:
        PrunecastError: no such table ships.
    """
    return _page(resolve(name))


def recipes(pair: str) -> dict[str, str]:
    """The recipes that a pair was measured with.

    Args:
        pair: a pair of dataset and family, such as "cifar10-resnet".

    Returns:
        The name of the table of each recipe, by recipe; empty if the pair was not measured.
    """
    found: dict[str, str] = {}
    for name in pairs().get(pair, ()):
        found.setdefault(_rows(name)[0]["recipe"], name)
    return found


def _page(name: str) -> dict[str, object]:
    page: dict[str, object] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return page


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))

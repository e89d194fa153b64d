"""The plan: one TOML file that names a grid of chains."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from prunecast.errors import PrunecastError
from prunecast.spec.check import require, require_known_keys
from prunecast.sweep.grid import KEYS, PlannedChain, chains_of


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The chains of a plan, each once, in the order of the file."""

    name: str
    chains: tuple[PlannedChain, ...]


def shipped_plans() -> dict[str, str]:
    """The plans that come with the package: their texts by name."""
    folder = resources.files("prunecast.sweep") / "plans"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in names}


def summary(text: str) -> str:
    """What a plan says about itself: its first comment."""
    comments = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next(comments, "")


def read_plan(source: str | Path) -> Plan:
    """Read a plan from a file, or by the name of one that ships."""
    path = Path(source)
    if path.is_file():
        return parse_plan(
            path.read_text(encoding="utf-8"), name=path.stem, place=str(path), beside=path.parent
        )
    shipped = shipped_plans()
    if str(source) in shipped:
        return parse_plan(shipped[str(source)], name=str(source), place=f"plan {source}", beside=Path())
    raise PrunecastError(f"There is no plan {source}; give a TOML file, or one of {', '.join(shipped)}.")


def parse_plan(text: str, *, name: str, place: str, beside: Path) -> Plan:
    """Make the chains of a plan; keys of a [[grid]] table go before those of the whole file."""
    try:
        body = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise PrunecastError(f"{place} is not a TOML file: {failure}.") from failure
    require_known_keys(place, body, KEYS)
    grids = body.pop("grid", [{}])
    require(isinstance(grids, list), f"{place}: write a grid as [[grid]], with two brackets.")
    chains: dict[str, PlannedChain] = {}
    for number, grid in enumerate(grids, 1):
        where = f"{place}, grid {number}" if len(grids) > 1 else place
        require_known_keys(where, grid, KEYS[:-1])
        for chain in chains_of({**body, **grid}, where, beside):
            chains.setdefault(chain.spec.digest, chain)
    return Plan(name=name, chains=tuple(chains.values()))

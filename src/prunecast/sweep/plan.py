"""The plan: one TOML file that names a grid of chains, at one or several scales."""

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError, require, require_known_keys
from prunecast.sweep.grid import KEYS, PlannedChain, chains_of
from prunecast.sweep.places import data_folder, located, moved

FULL = "full"
"""The scale of the file as it is; `[scale.NAME]` tables override its keys."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The chains of a plan, each once, in the order of the file."""

    name: str
    chains: tuple[PlannedChain, ...]
    data: Path | None = None
    """The folder of datasets, where one was named."""


def shipped_plans() -> dict[str, str]:
    """The plans that come with the package: their texts by name."""
    folder = resources.files("prunecast.sweep") / "plans"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in names}


def summary(text: str) -> str:
    """What a plan says about itself: its first comment."""
    comments = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next(comments, "")


def scales(text: str) -> tuple[str, ...]:
    """The scales of a plan, smallest first as it lists them, and the full one."""
    return (*tomllib.loads(text).get("scale", {}), FULL)


def read_plan(source: str | Path, *, scale: str = FULL, data: Path | None = None) -> Plan:
    """Read a plan from a file, or by the name of one that ships; `data` is the folder of datasets."""
    path = Path(source)
    if path.is_file():
        text, place, beside = path.read_text(encoding="utf-8"), str(path), path.parent
        return parse_plan(text, name=path.stem, place=place, beside=beside, scale=scale, data=data)
    shipped = shipped_plans()
    name = str(source)
    if name in shipped:
        place, beside = f"plan {name}", Path()
        return parse_plan(shipped[name], name=name, place=place, beside=beside, scale=scale, data=data)
    raise PrunecastError(f"There is no plan {source}; give a TOML file, or one of {', '.join(shipped)}.")


def parse_plan(
    text: str, *, name: str, place: str, beside: Path, scale: str = FULL, data: Path | None = None
) -> Plan:
    """Make the chains of a plan; keys of a [[grid]] go before those of a scale, these before the file's."""
    try:
        body = tomllib.loads(text)
    except tomllib.TOMLDecodeError as failure:
        raise PrunecastError(f"{place} is not a TOML file: {failure}.") from failure
    require_known_keys(place, body, (*KEYS, "scale"))
    body = scaled(body, scale, place)
    grids = body.pop("grid", [{}])
    tables = isinstance(grids, list) and bool(grids) and all(isinstance(grid, dict) for grid in grids)
    require(tables, f"{place}: write a grid as [[grid]], with two brackets.")
    chains: dict[str, PlannedChain] = {}
    for number, grid in enumerate(grids, 1):
        where = f"{place}, grid {number}" if len(grids) > 1 else place
        require_known_keys(where, grid, [key for key in KEYS if key != "grid"])
        for chain in chains_of({**body, **grid}, where, beside):
            chains.setdefault(chain.spec.digest, chain)
    folder = data_folder(data)
    return Plan(
        name=name if scale == FULL else f"{name}-{scale}",
        chains=_placed(chains.values(), beside, folder),
        data=folder,
    )


def scaled(body: Mapping[str, Any], scale: str, place: str) -> dict[str, Any]:
    """The keys of a plan at a scale: `[scale.NAME]` replaces the file's own, `grid` among them."""
    tables = body.get("scale", {})
    known = isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())
    require(known, f"{place}: write a scale as [scale.NAME], with the keys that it changes below it.")
    require(FULL not in tables, f"{place}: [scale.{FULL}] is the file as it is; choose another name.")
    valid = ", ".join((*tables, FULL))
    require(scale == FULL or scale in tables, f"{place} has no scale {scale!r}; choose one of {valid}.")
    for name, table in tables.items():
        require_known_keys(f"{place}, [scale.{name}]", table, KEYS)
    own = {key: value for key, value in body.items() if key != "scale"}
    return {**own, **tables.get(scale, {})}


def _placed(chains: Iterable[PlannedChain], beside: Path, folder: Path | None) -> tuple[PlannedChain, ...]:
    """The chains with the place of their data, each place looked at once."""
    found: dict[tuple[Path | None, str], Path | None] = {}
    placed = []
    for chain in chains:
        key = chain.root, chain.spec.loader or chain.spec.dataset
        if key not in found:
            root, name = key
            found[key] = located(name, folder) if root is None else moved(root, beside, folder)
        placed.append(dataclasses.replace(chain, root=found[key]))
    return tuple(placed)

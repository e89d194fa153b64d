"""The plan: one TOML file that names a grid of chains."""

import dataclasses
import itertools
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError
from prunecast.pruning.record import StopRules
from prunecast.spec import ChainSpec, Method, Recipe, level_cap, method, recipe
from prunecast.spec.check import require, require_known_keys, require_number

KEYS = (
    *(
        "family",
        "dataset",
        "loader",
        "root",
        "image_size",
        "recipe",
        "method",
        "depth",
        "width",
        "num_examples",
    ),
    *("replicates", "threads", "level_cap", "stop", "keep_weights", "grid"),
)
REQUIRED = ("family", "dataset", "recipe", "depth", "width", "num_examples")
STOP_KEYS = ("disconnected", "at_chance")


@dataclass(frozen=True, kw_only=True)
class PlannedChain:
    """A chain of a plan, with what does not belong to its identity."""

    spec: ChainSpec
    rules: StopRules
    root: Path | None
    """Where the data lies."""
    keep_weights: bool


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
        for chain in _chains({**body, **grid}, where, beside):
            chains.setdefault(chain.spec.digest, chain)
    return Plan(name=name, chains=tuple(chains.values()))


def _chains(grid: Mapping[str, Any], place: str, beside: Path) -> Iterator[PlannedChain]:
    missing = [key for key in REQUIRED if key not in grid]
    require(not missing, f"{place} lacks the key {', '.join(missing)}; add it.")
    root = beside / Path(grid["root"]).expanduser() if "root" in grid else None
    axes: list[list[Any]] = [
        *(_words(grid, key, place) for key in ("family", "dataset")),
        _recipes(grid["recipe"], place),
        _methods(grid.get("method", "imp"), place),
        *(_list(grid, key, place) for key in ("depth", "width", "num_examples")),
        _replicates(grid, place),
    ]
    for family, dataset, how, what, depth, width, num_examples, replicate in itertools.product(*axes):
        spec = ChainSpec(
            family=family,
            dataset=dataset,
            recipe=how,
            method=what,
            depth=depth,
            width=width,
            num_examples=num_examples,
            replicate=replicate,
            loader=grid.get("loader"),
            image_size=grid.get("image_size"),
            threads=grid.get("threads", 1),
        )
        rules = _rules(grid, place, spec)
        yield PlannedChain(spec=spec, rules=rules, root=root, keep_weights=bool(grid.get("keep_weights")))


def _rules(grid: Mapping[str, Any], place: str, spec: ChainSpec) -> StopRules:
    stop = grid.get("stop", {})
    require_known_keys(f"{place}, [stop]", stop, STOP_KEYS)
    cap = grid.get("level_cap", level_cap(spec.family, spec.dataset))
    require_number(f"{place}: level_cap", cap, whole=True)
    return StopRules(level_cap=cap, **stop)


def _list(grid: Mapping[str, Any], key: str, place: str) -> list[Any]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    require(bool(values), f"{place}: {key} is empty; give a number or a list of numbers.")
    for value in values:
        require_number(f"{place}: {key}", value, whole=key != "width")
    return values


def _words(grid: Mapping[str, Any], key: str, place: str) -> list[str]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    good = bool(values) and all(isinstance(value, str) for value in values)
    require(good, f"{place}: {key} is {grid[key]!r}; give a name or a list of names.")
    return values


def _replicates(grid: Mapping[str, Any], place: str) -> list[int]:
    given = grid.get("replicates", 1)
    if isinstance(given, list):
        return _list({"replicates": given}, "replicates", place)
    require_number(f"{place}: replicates", given, whole=True)
    require(given > 0, f"{place}: replicates is {given}; give how many, or a list of their numbers.")
    return list(range(given))


def _recipes(given: Any, place: str) -> list[Recipe]:
    return [_recipe(item, place) for item in (given if isinstance(given, list) else [given])]


def _recipe(given: Any, place: str) -> Recipe:
    """A preset's name, or a table with `preset` and what is to be different."""
    if isinstance(given, str):
        return recipe(given)
    require(isinstance(given, dict), f"{place}: recipe is {given!r}; give a preset's name or a table.")
    require("preset" in given, f"{place}, [recipe] lacks the key preset; name the recipe to start from.")
    changes = {key: value for key, value in given.items() if key != "preset"}
    return recipe(given["preset"]).changed(changes, f"{place}, [recipe]")


def _methods(given: Any, place: str) -> list[Method]:
    return [_method(item, place) for item in (given if isinstance(given, list) else [given])]


def _method(given: Any, place: str) -> Method:
    """A preset's name, or a table with a name of its own and the method's fields."""
    if isinstance(given, str):
        return method(given)
    require(isinstance(given, dict), f"{place}: method is {given!r}; give a preset's name or a table.")
    valid = [field.name for field in dataclasses.fields(Method)]
    require_known_keys(f"{place}, [method]", given, valid)
    require("name" in given, f"{place}, [method] lacks the key name; say what the table shall call it.")
    return Method(**given)

"""The keys of a plan, and the chains that one grid of them names."""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunecast.catalog import dataset_names, find_dataset
from prunecast.errors import (
    PrunecastError,
    require,
    require_flag,
    require_known_keys,
    require_number,
    require_text,
)
from prunecast.pruning import StopRules
from prunecast.spec import ChainSpec, Method, Recipe, level_cap, method, recipe
from prunecast.sweep.resources import Resources, checked
from prunecast.sweep.select import Select

KEYS = (
    *("family", "dataset", "loader", "root", "image_size", "recipe", "method"),
    *("depth", "width", "num_examples", "replicates", "threads", "level_cap", "stop", "select"),
    *("keep_weights", "resources", "devices", "grid"),
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
    select: Select | None = None
    """The selection rule that this chain is subject to."""
    resources: Resources | None = None
    """What a worker of this chain needs on a cluster, where the plan says so."""
    devices: int = 1
    """Processes, each with a GPU where there are GPUs, that share every batch of this chain."""


def chains_of(grid: Mapping[str, Any], place: str, beside: Path) -> Iterator[PlannedChain]:
    """The product of a grid's lists; `place` names it in messages, data lies relative to `beside`."""
    missing = [key for key in REQUIRED if key not in grid]
    require(not missing, f"{place} lacks the key {', '.join(missing)}; add it.")
    root, keep = grid.get("root"), grid.get("keep_weights", False)
    if root is not None:
        require_text(f"{place}: root", root)
    require_flag(f"{place}: keep_weights", keep)
    select = _select(grid, place)
    wanted = checked(grid["resources"], f"{place}, [resources]") if "resources" in grid else None
    axes: list[list[Any]] = [
        *(_words(grid, key, place) for key in ("family", "dataset")),
        _recipes(grid["recipe"], place),
        _methods(grid.get("method", "imp"), place),
        *(_list(grid, key, place) for key in ("depth", "width", "num_examples")),
        _replicates(grid, place),
    ]
    for family, dataset, how, what, depth, width, num_examples, replicate in itertools.product(*axes):
        num_examples = (
            _all(dataset, grid.get("loader"), how, place) if num_examples == "all" else num_examples
        )
        with _at(place):
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
        yield PlannedChain(
            spec=spec,
            rules=rules,
            root=None if root is None else beside / Path(root).expanduser(),
            keep_weights=keep,
            select=select,
            resources=wanted,
            devices=_devices(grid, place, spec),
        )


@contextmanager
def _at(place: str) -> Iterator[None]:
    """A spec knows what is wrong with it, and as a rule not in which file it stands."""
    try:
        yield
    except PrunecastError as problem:
        if str(problem).startswith(place):
            raise
        raise PrunecastError(f"{place}: {problem}") from problem


def _devices(grid: Mapping[str, Any], place: str, spec: ChainSpec) -> int:
    devices = grid.get("devices", 1)
    require_number(f"{place}: devices", devices, whole=True)
    require(devices > 0, f"{place}: devices is {devices}; give 1 or more.")
    batch = min(spec.recipe.batch_size, spec.num_examples)
    require(devices <= batch, f"{place}: devices is {devices}, more than the {batch} examples of a batch.")
    return int(devices)


def _rules(grid: Mapping[str, Any], place: str, spec: ChainSpec) -> StopRules:
    stop = grid.get("stop", {})
    require_known_keys(f"{place}, [stop]", stop, STOP_KEYS)
    cap = grid.get("level_cap", level_cap(spec.family, spec.dataset))
    require_flag(f"{place}, [stop]: disconnected", stop.get("disconnected", True))
    for name, value in ((": level_cap", cap), (", [stop]: at_chance", stop.get("at_chance", 0))):
        require_number(place + name, value, whole=True)
        require(value >= 0, f"{place}{name} is {value}; give 0 or more.")
    return StopRules(level_cap=cap, **stop)


def _select(grid: Mapping[str, Any], place: str) -> Select | None:
    """True for the rule as it is, a table to change its tolerance or to give the noise."""
    given = grid.get("select", False)
    if given is False:
        return None
    table = {} if given is True else given
    require(isinstance(table, dict), f"{place}: select is {given!r}; give true, false or a table.")
    valid = [field.name for field in dataclasses.fields(Select)]
    require_known_keys(f"{place}, [select]", table, valid)
    for key, value in table.items():
        require_number(f"{place}, [select]: {key}", value)
        require(value >= 0, f"{place}, [select]: {key} is {value}; give 0 or more.")
    known = "noise" in table or len(_replicates(grid, place)) > 1
    remedy = "ask for more replicates, or give it as noise in [select] (0.03 is 3% of the error)"
    require(known, f"{place}: select needs the noise of replicates, and there is one only; {remedy}.")
    return Select(**table)


def _all(dataset: str, loader: str | None, how: Recipe, place: str) -> int:
    """Every training example that is not held out."""
    facts = find_dataset(dataset, loader)
    if facts is None:
        known = ", ".join(dataset_names())
        raise PrunecastError(f'{place}: num_examples "all" is known for {known}; give a number instead.')
    return facts.train_examples - how.validation_examples


def _list(grid: Mapping[str, Any], key: str, place: str) -> list[Any]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    require(bool(values), f"{place}: {key} is empty; give a number or a list of numbers.")
    for value in values:
        if not (key == "num_examples" and value == "all"):
            require_number(f"{place}: {key}", value, whole=key != "width")
    return values


def _words(grid: Mapping[str, Any], key: str, place: str) -> list[str]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    good = bool(values) and all(isinstance(value, str) and value for value in values)
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
    require(given != [], f"{place}: recipe is empty; give a preset's name or a table, or a list of them.")
    with _at(place):
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
    require(given != [], f"{place}: method is empty; give a preset's name or a table, or a list of them.")
    with _at(place):
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

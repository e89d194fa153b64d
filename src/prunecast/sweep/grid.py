"""The keys of a plan, and the chains that a grid of them names."""

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from prunecast.catalog import DatasetFacts, find_dataset, vit_family
from prunecast.errors import (
    PrunecastError,
    require,
    require_flag,
    require_known_keys,
    require_number,
    require_text,
)
from prunecast.pruning import StopRules, start_digest
from prunecast.spec import ChainSpec, Method, Recipe, Select, level_cap, method, n_of_m, recipe
from prunecast.sweep.resources import Resources, checked
from prunecast.text import parse_number

T = TypeVar("T")
KEYS = (
    *("family", "dataset", "loader", "root", "image_size", "patch_size", "test_share", "split_seed"),
    *("recipe", "method", "start"),
    *("depth", "width", "num_examples", "replicates", "threads", "level_cap", "stop", "select"),
    *("keep_weights", "resources", "devices", "grid"),
)
LARGEST = 10**9
"""No count of a plan is larger; counts beyond 64 bits would fail in the middle of a run."""
MOST_CHAINS = 100_000
"""Chains of one plan: commands list them all, and a store has a folder for each."""
REQUIRED = ("family", "dataset", "recipe", "depth", "width", "num_examples")
START_KEYS = ("file", "train")
START_NAMES = ("family", "dataset", "depth", "width", "num_examples", "replicate")
"""What the name of a file of weights may contain in braces."""
STOP_KEYS = ("disconnected", "at_chance")
VIT = "vit"
PATCH_SIZE = 4
"""The patch size of the family vit unless the plan gives another."""
SPLIT_KEYS = ("test_share", "split_seed")
ALL = "all"
"""The `num_examples` that takes all training examples."""

CountTraining = Callable[[ChainSpec, Path | None], int]
"""The number of training examples in a chain's dataset, held-out ones included; the path is the grid's root."""


@dataclass(frozen=True, kw_only=True)
class NetworkSize:
    """The size of a network."""

    parameters: int
    weights: int
    """Prunable weights."""
    multiply_adds: int
    """Per image, unpruned."""


@dataclass(frozen=True, kw_only=True)
class PlannedChain:
    """A chain of a plan: its spec, and settings that are not part of its identity."""

    spec: ChainSpec
    rules: StopRules
    root: Path | None
    """The path of the data."""
    keep_weights: bool
    select: Select | None = None
    """The selection rule that applies to this chain."""
    resources: Resources | None = None
    """What a worker of this chain needs on a cluster, if the plan says so."""
    start: Path | None = None
    """The file of weights that the chain starts from."""
    devices: int = 1
    """Processes that share every batch of this chain, each with its own GPU if there are GPUs."""
    seen: DatasetFacts | None = None
    """Its data as it is on disk, if that was looked at."""
    size: NetworkSize | None = None
    """The size of its network, if that was looked at."""

    @property
    def facts(self) -> DatasetFacts | None:
        """Facts about its data; None if the data is neither known by name nor read."""
        return self.seen or find_dataset(self.spec.dataset, self.spec.loader)


def grid_chains(
    grid: Mapping[str, Any], place: str, folder: Path, count: CountTraining
) -> Iterator[PlannedChain]:
    """Every combination of a grid's lists.

    Error messages call the grid `place`. A relative `root` is relative to `folder`. Data is counted only where
    `num_examples` is a share of it.
    """
    missing = [key for key in REQUIRED if key not in grid]
    words = ("key", "it") if len(missing) == 1 else ("keys", "them")
    require(not missing, f"{place} lacks the {words[0]} {', '.join(missing)}; add {words[1]}.")
    root, keep = grid.get("root"), grid.get("keep_weights", False)
    if root is not None:
        require_text(f"{place}: root", root)
    require_flag(f"{place}: keep_weights", keep)
    select = _select(grid, place)
    resources = checked(grid["resources"], f"{place}, [resources]") if "resources" in grid else None
    where = None if root is None else folder / Path(root).expanduser()
    for spec in _specs(grid, place, lambda spec: count(spec, where)):
        start = _start_path(grid, place, spec, folder)
        yield PlannedChain(
            spec=_started(grid, place, spec, start),
            start=start,
            rules=_rules(grid, place, spec),
            root=where,
            keep_weights=keep,
            select=select,
            resources=resources,
            devices=_devices(grid, place, spec),
        )


def _start_path(grid: Mapping[str, Any], place: str, spec: ChainSpec, folder: Path) -> Path | None:
    """The file of weights of one chain; its name may contain the chain's sizes in braces."""
    name = _start(grid, place).get("file")
    if name is None:
        return None
    values = {key: f"{getattr(spec, key)}" for key in START_NAMES} | {"width": f"{spec.width:g}"}
    filled: str = name
    for key, value in values.items():
        filled = filled.replace(f"{{{key}}}", value)
    known = ", ".join(f"{{{key}}}" for key in START_NAMES)
    require(not {"{", "}"} & set(filled), f"{place}: start is {name!r}; in braces give one of {known}.")
    require(filled.isprintable(), f"{place}: start is {name!r}; give a name without control characters.")
    try:
        return folder / Path(filled).expanduser()
    except RuntimeError as failure:
        raise PrunecastError(
            f"{place}: start is {name!r}, but there is no such user; give a path."
        ) from failure


def _started(grid: Mapping[str, Any], place: str, spec: ChainSpec, path: Path | None) -> ChainSpec:
    """The spec of a chain that starts from a file of weights, if there is one; the method's name says so.

    With weight rewinding level 0 is trained from the file; otherwise it is the file's network. `train` changes that.
    """
    if path is None:
        return spec
    start, method = _start(grid, place), spec.method
    rewinds = method.retraining == "weight-rewinding" or method.before_training
    said = f"+train={str(start['train']).lower()}" if "train" in start else ""
    with _at(place):
        return dataclasses.replace(
            spec,
            method=dataclasses.replace(method, name=f"{method.name}+start={Path(start['file']).stem}{said}"),
            start=start_digest(path),
            start_trained=not start.get("train", rewinds),
        )


def _start(grid: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The plan's `start` as a table: nothing, or a file and how level 0 uses it."""
    given = grid.get("start", {})
    start = {"file": given} if isinstance(given, str) else given
    require_known_keys(f"{place}, [start]", start, START_KEYS)
    if not start:
        return {}
    require("file" in start, f"{place}, [start] lacks the key file; name a file of weights.")
    require_text(f"{place}, [start]: file", start["file"])
    if "train" in start:
        require_flag(f"{place}, [start]: train", start["train"])
    return dict(start)


def _specs(grid: Mapping[str, Any], place: str, count: Callable[[ChainSpec], int]) -> Iterator[ChainSpec]:
    axes: list[Sequence[Any]] = [
        _families(grid, place),
        _names(grid, "dataset", place),
        _presets("recipe", grid["recipe"], place, _recipe),
        _presets("method", grid.get("method", "imp"), place, _method),
        *(_numbers(grid, key, place) for key in ("depth", "width")),
        _amounts(grid, place),
        _replicates(grid, place),
    ]
    check_count(math.prod(map(len, axes)), place)
    given = {key: grid[key] for key in ("loader", "image_size", "threads", *SPLIT_KEYS) if key in grid}
    for family, dataset, how, what, depth, width, num_examples, replicate in itertools.product(*axes):
        share = num_examples if isinstance(num_examples, Fraction) else None
        with _at(place):
            spec = ChainSpec(
                family=family,
                dataset=dataset,
                recipe=how,
                method=what,
                depth=depth,
                width=width,
                num_examples=1 if share is not None else num_examples,
                replicate=replicate,
                **given,
            )
            if share is not None:
                spec = dataclasses.replace(spec, num_examples=_shared(share, spec, count(spec)))
        yield spec


def _shared(share: Fraction, spec: ChainSpec, total: int) -> int:
    """A share of the training examples that are not held out, rounded down."""
    held = spec.recipe.validation_examples
    left = f"{total:,} training examples" + (f", {held:,} of them held out" if held else "")
    remedy = "hold out fewer" if held else "ask for more"
    number = int(share * (total - held))
    require(number > 0, f"{float(share):g} of {spec.dataset} ({left}) is less than one example; {remedy}.")
    return number


def check_count(chains: int, place: str) -> None:
    """Refuse a plan of more chains than can be listed."""
    require(
        chains <= MOST_CHAINS,
        f"{place} names {chains:,} chains, but a plan may have {MOST_CHAINS:,}; ask for fewer replicates, or split it.",
    )


@contextmanager
def _at(place: str) -> Iterator[None]:
    """Add the place in the plan to the message of an error."""
    try:
        yield
    except PrunecastError as problem:
        raise PrunecastError(f"{place}: {problem}") from problem


def _devices(grid: Mapping[str, Any], place: str, spec: ChainSpec) -> int:
    devices = grid.get("devices", 1)
    require_number(f"{place}: devices", devices, whole=True)
    require(devices > 0, f"{place}: devices is {devices}; give 1 or more.")
    batch = min(spec.recipe.batch_size, spec.num_examples)
    require(
        devices <= batch,
        f"{place}: devices is {devices}, more than the {batch} examples of a batch; give fewer.",
    )
    return int(devices)


def _rules(grid: Mapping[str, Any], place: str, spec: ChainSpec) -> StopRules:
    stop = grid.get("stop", {})
    require_known_keys(f"{place}, [stop]", stop, STOP_KEYS)
    cap = grid.get("level_cap", level_cap(spec.family, spec.dataset))
    require_flag(f"{place}, [stop]: disconnected", stop.get("disconnected", True))
    for name, value in ((": level_cap", cap), (", [stop]: at_chance", stop.get("at_chance", 0))):
        require_number(place + name, value, whole=True)
        require(0 <= value <= LARGEST, f"{place}{name} is {value}; give 0 or more, up to {LARGEST:,}.")
    if (pair := n_of_m(spec.method.structure)) is not None:
        cap = min(cap, pair[1] - pair[0])
    return StopRules(level_cap=cap, **stop)


def _select(grid: Mapping[str, Any], place: str) -> Select | None:
    """`true` for the default rule, or a table that sets its tolerance or noise."""
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
    require(known, f"{place}: select needs the noise of replicates, but there is only one; {remedy}.")
    return Select(**table)


def _amounts(grid: Mapping[str, Any], place: str) -> list[int | Fraction]:
    """Numbers of examples, or shares of all: `"all"`, 0.5, `"1/2"` or `"50%"`."""
    given = grid["num_examples"]
    values = given if isinstance(given, list) else [given]
    require(bool(values), f"{place}: num_examples is empty; give a number or a list of numbers.")
    return [_amount(value, place) for value in values]


def _amount(value: object, place: str) -> int | Fraction:
    if value == ALL:
        return Fraction(1)
    if isinstance(value, int) and not isinstance(value, bool):
        require(value <= LARGEST, f"{place}: num_examples is {value}; give at most {LARGEST:,}.")
        return value
    share = None
    if isinstance(value, float) or (
        isinstance(value, str) and "e" not in value.lower()
    ):  # 1e999999999 takes hours
        with contextlib.suppress(ValueError, ZeroDivisionError):
            text = str(value).strip()
            share = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    good = share is not None and 0 < share <= 1
    wanted = f'give a whole number, "{ALL}", or a share such as 0.5 or "1/2"'
    require(good, f"{place}: num_examples is {value!r}; {wanted}.")
    assert share is not None
    return share


def _numbers(grid: Mapping[str, Any], key: str, place: str) -> list[Any]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    require(bool(values), f"{place}: {key} is empty; give a number or a list of numbers.")
    if key == "width":
        values = [_fraction(value) for value in values]
    for value in values:
        require_number(f"{place}: {key}", value, whole=key != "width")
        require(value <= LARGEST, f"{place}: {key} is {value}; give at most {LARGEST:,}.")
    return values


def _fraction(value: object) -> object:
    """The number that a text such as "1/4" or "25%" means; anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parse_number(value)
    return value


def _names(grid: Mapping[str, Any], key: str, place: str) -> list[str]:
    values = grid[key] if isinstance(grid[key], list) else [grid[key]]
    good = bool(values) and all(isinstance(value, str) and value for value in values)
    require(good, f"{place}: {key} is {grid[key]!r}; give a name or a list of names.")
    return values


def _families(grid: Mapping[str, Any], place: str) -> list[str]:
    """Families by name; `vit` and a patch size, or several, are the family `vit_patch4` and so on."""
    names, sizes = _names(grid, "family", place), grid.get("patch_size")
    if sizes is None:
        sizes = PATCH_SIZE
    elif VIT not in names:
        raise PrunecastError(
            f'{place}: patch_size is for the family "{VIT}", not for {", ".join(names)}; remove it.'
        )
    patches = _numbers({"patch_size": sizes}, "patch_size", place)
    with _at(place):
        found = [[name] if name != VIT else [vit_family(size) for size in patches] for name in names]
    return [name for names in found for name in names]


def _replicates(grid: Mapping[str, Any], place: str) -> Sequence[int]:
    given = grid.get("replicates", 1)
    if isinstance(given, list):
        return _numbers({"replicates": given}, "replicates", place)
    require_number(f"{place}: replicates", given, whole=True)
    remedy = f"give how many (at most {LARGEST:,}), or a list of their numbers"
    require(0 < given <= LARGEST, f"{place}: replicates is {given}; {remedy}.")
    return range(given)


def _presets(key: str, given: Any, place: str, parse: Callable[[Any], T]) -> list[T]:
    """Recipes or methods: one, or a list of them, each a preset's name or a table."""
    require(given != [], f"{place}: {key} is empty; give a preset's name or a table, or a list of them.")
    with _at(place):
        return [parse(item) for item in (given if isinstance(given, list) else [given])]


def _recipe(given: Any) -> Recipe:
    """A preset's name, or a table with `preset` and the fields to change, or with all that a recipe needs."""
    if isinstance(given, str):
        return recipe(given)
    require(isinstance(given, dict), f"recipe is {given!r}; give a preset's name or a table.")
    changes = {key: value for key, value in given.items() if key != "preset"}
    if "preset" in given:
        return recipe(given["preset"]).changed(changes, "[recipe]")
    require_known_keys("[recipe]", given, ["preset", *(field.name for field in dataclasses.fields(Recipe))])
    missing = [field for field in ("name", "epochs", "learning_rate", "batch_size") if field not in given]
    require(
        not missing,
        f"[recipe] lacks the key preset; name the recipe to start from, or give {' and '.join(missing)}, too.",
    )
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in changes.items()
    }
    return Recipe(**values)


def _method(given: Any) -> Method:
    """A preset's name, or a table with a name of its own and the method's fields."""
    if isinstance(given, str):
        return method(given)
    require(isinstance(given, dict), f"method is {given!r}; give a preset's name or a table.")
    valid = [field.name for field in dataclasses.fields(Method)]
    require_known_keys("[method]", given, valid)
    require("name" in given, "[method] lacks the key name; give the name that the table shows.")
    return Method(**given)

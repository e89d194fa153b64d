"""The keys of a plan's grid, and the chains that it names."""

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
"""The largest count in a plan; counts beyond 64 bits would fail in the middle of a run."""
MOST_CHAINS = 100_000
"""The most chains of one plan: commands list them all, and a store has a folder for each."""
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
    """What a worker of this chain needs on a cluster, if the plan has a table [resources]."""
    start: Path | None = None
    """The file of weights that the chain starts from."""
    devices: int = 1
    """Processes that share every batch of this chain; with GPUs, each has its own."""
    seen: DatasetFacts | None = None
    """Its data as it is on disk, after an inspection."""
    size: NetworkSize | None = None
    """The size of its network, after an inspection."""

    @property
    def facts(self) -> DatasetFacts | None:
        """Facts about its data; None if the data is neither known by name nor read."""
        return self.seen or find_dataset(self.spec.dataset, self.spec.loader)


def grid_chains(
    grid: Mapping[str, Any], place: str, folder: Path, count: CountTraining
) -> Iterator[PlannedChain]:
    """Every combination of a grid's lists.

    Error messages call the grid `place`. A relative `root` is relative to `folder`. Data is counted only if
    `num_examples` is a share of it.
    """
    return _Grid(given=grid, place=place, folder=folder, count=count).chains()


def check_count(chains: int, place: str) -> None:
    """Refuse a plan of too many chains."""
    require(
        chains <= MOST_CHAINS,
        f"{place} names {chains:,} chains, but a plan may have {MOST_CHAINS:,}; ask for fewer replicates, or split it.",
    )


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """The keys of one grid, checked when they are read."""

    given: Mapping[str, Any]
    place: str
    folder: Path
    count: CountTraining

    def chains(self) -> Iterator[PlannedChain]:
        missing = [key for key in REQUIRED if key not in self.given]
        words = ("key", "it") if len(missing) == 1 else ("keys", "them")
        require(not missing, f"{self.place} lacks the {words[0]} {', '.join(missing)}; add {words[1]}.")
        given, keep = self.given.get("root"), self.given.get("keep_weights", False)
        if given is not None:
            require_text(f"{self.place}: root", given)
        require_flag(f"{self.place}: keep_weights", keep)
        root = None if given is None else self.folder / Path(given).expanduser()
        resources = self.given.get("resources")
        if resources is not None:
            resources = checked(resources, f"{self.place}, [resources]")
        select, start = self._select(), self._start()
        for spec in self._specs(root):
            path = self._start_path(start["file"], spec) if start else None
            yield PlannedChain(
                spec=spec if path is None else self._started(spec, path, start),
                start=path,
                rules=self._rules(spec),
                root=root,
                keep_weights=keep,
                select=select,
                resources=resources,
                devices=self._devices(spec),
            )

    def _require(self, holds: bool, problem: str) -> None:
        require(holds, f"{self.place}: {problem}")

    def _list(self, key: str) -> list[Any]:
        """The values of a key, which may be given as one value."""
        return self.given[key] if isinstance(self.given[key], list) else [self.given[key]]

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Add the place in the plan to the message of an error."""
        try:
            yield
        except PrunecastError as problem:
            raise PrunecastError(f"{self.place}: {problem}") from problem

    def _specs(self, root: Path | None) -> Iterator[ChainSpec]:
        axes: list[Sequence[Any]] = [
            self._families(),
            self._names("dataset"),
            self._presets("recipe", self.given["recipe"], _recipe),
            self._presets("method", self.given.get("method", "imp"), _method),
            self._numbers("depth"),
            self._numbers("width"),
            self._amounts(),
            self._replicates(),
        ]
        check_count(math.prod(map(len, axes)), self.place)
        others = ("loader", "image_size", "threads", *SPLIT_KEYS)
        given = {key: self.given[key] for key in others if key in self.given}
        for family, dataset, how, what, depth, width, num_examples, replicate in itertools.product(*axes):
            share = num_examples if isinstance(num_examples, Fraction) else None
            with self._located():
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
                    examples = _shared(share, spec, self.count(spec, root))
                    spec = dataclasses.replace(spec, num_examples=examples)
            yield spec

    def _families(self) -> list[str]:
        """Families by name; `vit` with patch sizes is the families `vit_patch4` and so on."""
        names, patches = self._names("family"), [PATCH_SIZE]
        if self.given.get("patch_size") is not None:
            known = f'patch_size is for the family "{VIT}", not for {", ".join(names)}; remove it.'
            self._require(VIT in names, known)
            patches = self._numbers("patch_size")
        with self._located():
            found = [[name] if name != VIT else [vit_family(size) for size in patches] for name in names]
        return [name for names in found for name in names]

    def _names(self, key: str) -> list[str]:
        values = self._list(key)
        good = bool(values) and all(isinstance(value, str) and value for value in values)
        self._require(good, f"{key} is {self.given[key]!r}; give a name or a list of names.")
        return values

    def _presets(self, key: str, given: Any, parse: Callable[[Any], T]) -> list[T]:
        """Recipes or methods: one, or a list of them, each a preset's name or a table."""
        empty = f"{key} is empty; give a preset's name or a table, or a list of them."
        self._require(given != [], empty)
        with self._located():
            return [parse(item) for item in (given if isinstance(given, list) else [given])]

    def _numbers(self, key: str) -> list[Any]:
        values = self._list(key)
        self._require(bool(values), f"{key} is empty; give a number or a list of numbers.")
        if key == "width":
            values = [_fraction(value) for value in values]
        for value in values:
            require_number(f"{self.place}: {key}", value, whole=key != "width")
            self._require(value <= LARGEST, f"{key} is {value}; give at most {LARGEST:,}.")
        return values

    def _amounts(self) -> list[int | Fraction]:
        """Numbers of examples, or shares of all: `"all"`, 0.5, `"1/2"` or `"50%"`."""
        values = self._list("num_examples")
        self._require(bool(values), "num_examples is empty; give a number or a list of numbers.")
        return [self._amount(value) for value in values]

    def _amount(self, value: object) -> int | Fraction:
        if value == ALL:
            return Fraction(1)
        if isinstance(value, int) and not isinstance(value, bool):
            self._require(value <= LARGEST, f"num_examples is {value}; give at most {LARGEST:,}.")
            return value
        share = None
        text = str(value).strip() if isinstance(value, float | str) else ""
        if isinstance(value, float) or "e" not in text.lower():  # 1e999999999 takes hours
            with contextlib.suppress(ValueError, ZeroDivisionError):
                share = Fraction(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        good = share is not None and 0 < share <= 1
        wanted = f'give a whole number, "{ALL}", or a share such as 0.5 or "1/2"'
        self._require(good, f"num_examples is {value!r}; {wanted}.")
        assert share is not None
        return share

    def _replicates(self) -> Sequence[int]:
        given = self.given.get("replicates", 1)
        if isinstance(given, list):
            return self._numbers("replicates")
        require_number(f"{self.place}: replicates", given, whole=True)
        remedy = f"give how many (at most {LARGEST:,}), or a list of their numbers"
        self._require(0 < given <= LARGEST, f"replicates is {given}; {remedy}.")
        return range(given)

    def _select(self) -> Select | None:
        """`true` for the default rule, or a table that sets its tolerance or noise."""
        given = self.given.get("select", False)
        if given is False:
            return None
        table = {} if given is True else given
        self._require(isinstance(table, dict), f"select is {given!r}; give true, false or a table.")
        valid = [field.name for field in dataclasses.fields(Select)]
        require_known_keys(f"{self.place}, [select]", table, valid)
        for key, value in table.items():
            require_number(f"{self.place}, [select]: {key}", value)
            require(value >= 0, f"{self.place}, [select]: {key} is {value}; give 0 or more.")
        known = "noise" in table or len(self._replicates()) > 1
        remedy = "ask for more replicates, or give it as noise in [select] (0.03 is 3% of the error)"
        self._require(known, f"select needs the noise of replicates, but there is only one; {remedy}.")
        return Select(**table)

    def _start(self) -> dict[str, Any]:
        """The plan's `start` as a table: nothing, or a file and how level 0 uses it."""
        given, place = self.given.get("start", {}), f"{self.place}, [start]"
        start = {"file": given} if isinstance(given, str) else given
        require_known_keys(place, start, START_KEYS)
        if not start:
            return {}
        require("file" in start, f"{place} lacks the key file; name a file of weights.")
        require_text(f"{place}: file", start["file"])
        if "train" in start:
            require_flag(f"{place}: train", start["train"])
        return dict(start)

    def _start_path(self, name: str, spec: ChainSpec) -> Path:
        """The file of weights of one chain; its name may contain the chain's sizes in braces."""
        values = {key: f"{getattr(spec, key)}" for key in START_NAMES} | {"width": f"{spec.width:g}"}
        filled = name
        for key, value in values.items():
            filled = filled.replace(f"{{{key}}}", value)
        known = ", ".join(f"{{{key}}}" for key in START_NAMES)
        self._require(not {"{", "}"} & set(filled), f"start is {name!r}; in braces give one of {known}.")
        self._require(filled.isprintable(), f"start is {name!r}; give a name without control characters.")
        try:
            return self.folder / Path(filled).expanduser()
        except RuntimeError as failure:
            problem = f"{self.place}: start is {name!r}, but there is no such user; give a path."
            raise PrunecastError(problem) from failure

    def _started(self, spec: ChainSpec, path: Path, start: Mapping[str, Any]) -> ChainSpec:
        """The spec of a chain that starts from a file of weights, which the method's name says.

        With weight rewinding, level 0 is trained from the file; otherwise it is the file's network. The key `train`
        overrides that.
        """
        old = spec.method
        rewinds = old.retraining == "weight-rewinding" or old.before_training
        said = f"+train={str(start['train']).lower()}" if "train" in start else ""
        with self._located():
            new = dataclasses.replace(old, name=f"{old.name}+start={Path(start['file']).stem}{said}")
            trained = not start.get("train", rewinds)
            return dataclasses.replace(spec, method=new, start=start_digest(path), start_trained=trained)

    def _rules(self, spec: ChainSpec) -> StopRules:
        stop = self.given.get("stop", {})
        require_known_keys(f"{self.place}, [stop]", stop, STOP_KEYS)
        cap = self.given.get("level_cap", level_cap(spec.family, spec.dataset))
        require_flag(f"{self.place}, [stop]: disconnected", stop.get("disconnected", True))
        for name, value in ((": level_cap", cap), (", [stop]: at_chance", stop.get("at_chance", 0))):
            require_number(self.place + name, value, whole=True)
            limits = f"give 0 or more, up to {LARGEST:,}"
            require(0 <= value <= LARGEST, f"{self.place}{name} is {value}; {limits}.")
        if (pair := n_of_m(spec.method.structure)) is not None:
            cap = min(cap, pair[1] - pair[0])
        return StopRules(level_cap=cap, **stop)

    def _devices(self, spec: ChainSpec) -> int:
        devices = self.given.get("devices", 1)
        require_number(f"{self.place}: devices", devices, whole=True)
        self._require(devices > 0, f"devices is {devices}; give 1 or more.")
        batch = min(spec.recipe.batch_size, spec.num_examples)
        too_many = f"devices is {devices}, more than the {batch} examples of a batch; give fewer."
        self._require(devices <= batch, too_many)
        return int(devices)


def _shared(share: Fraction, spec: ChainSpec, total: int) -> int:
    """A share of the training examples that are not held out, rounded down."""
    held = spec.recipe.validation_examples
    left = f"{total:,} training examples" + (f", {held:,} of them held out" if held else "")
    remedy = "hold out fewer" if held else "ask for more"
    number = int(share * (total - held))
    require(number > 0, f"{float(share):g} of {spec.dataset} ({left}) is less than one example; {remedy}.")
    return number


def _fraction(value: object) -> object:
    """The number that a text such as "1/4" or "25%" means; anything else as it is."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return parse_number(value)
    return value


def _recipe(given: Any) -> Recipe:
    """A preset's name, or a table: `preset` and the fields to change, or all that a recipe needs."""
    if isinstance(given, str):
        return recipe(given)
    require(isinstance(given, dict), f"recipe is {given!r}; give a preset's name or a table.")
    changes = {key: value for key, value in given.items() if key != "preset"}
    if "preset" in given:
        return recipe(given["preset"]).changed(changes, "[recipe]")
    require_known_keys("[recipe]", given, ["preset", *(field.name for field in dataclasses.fields(Recipe))])
    missing = [field for field in ("name", "epochs", "learning_rate", "batch_size") if field not in given]
    remedy = f"name the recipe to start from, or give {' and '.join(missing)}, too"
    require(not missing, f"[recipe] lacks the key preset; {remedy}.")
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

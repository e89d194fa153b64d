"""Plan files: TOML that names a grid of chains, at one or several scales, and where the data is."""

import dataclasses
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from prunecast.catalog import find_dataset
from prunecast.data import Dataset, Split, load_for, training_examples
from prunecast.errors import PrunecastError, require, require_known_keys
from prunecast.files import read_input
from prunecast.spec import ChainSpec
from prunecast.sweep.grid import ALL, KEYS, PlannedChain, check_count, grid_chains
from prunecast.text import did_you_mean

FULL = "full"
"""The scale that is the file as it is; `[scale.NAME]` tables override its keys."""
SCALE_NAME = re.compile(r"\w[\w .+-]{0,99}")
"""File names contain the name of a scale."""
LARGEST_FILE, MOST_PARTS = 1 << 24, 64
LONG_KEY = re.compile(rf"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")
"""Keys with so many parts take the parser quadratic time. This pattern takes linear time: it never backtracks."""
VARIABLE = "PRUNECAST_DATA"
"""The environment variable for the folder with datasets."""


DataKey = tuple[str, Path | None, int | None, float, int]
"""Identifies data: equal for one dataset from one place, resized and split in the same way."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The chains of a plan, each once, in the order of the file."""

    name: str
    chains: tuple[PlannedChain, ...]
    data: Path | None = None
    """The folder with datasets, if one was given."""


def shipped_plans() -> dict[str, str]:
    """The texts of the plans that ship with the package, by name."""
    folder = resources.files("prunecast.sweep") / "plans"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    return {name.removesuffix(".toml"): (folder / name).read_text(encoding="utf-8") for name in names}


def summary(text: str) -> str:
    """The first comment of a plan."""
    comments = (line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#"))
    return next(comments, "")


def scales(text: str) -> tuple[str, ...]:
    """The scales of a plan in the order of the file, then the full one."""
    return (*tomllib.loads(text).get("scale", {}), FULL)


def read_plan(source: str | Path, *, scale: str = FULL, data: Path | None = None) -> Plan:
    """Read a plan file, or a shipped plan by its name; `data` is the folder of datasets."""
    path = Path(source)
    if path.exists() and not path.is_dir():
        text = _text(path)
        return parse_plan(text, name=path.stem, place=str(path), folder=path.parent, scale=scale, data=data)
    shipped = shipped_plans()
    name = str(source)
    if name in shipped:
        return parse_plan(shipped[name], name=name, place=f"plan {name}", scale=scale, data=data)
    raise PrunecastError(
        f"there is no plan {source}; give a TOML file, or one of {', '.join(shipped)}.{did_you_mean(name, shipped)}"
    )


def _text(path: Path) -> str:
    """The text of a plan's file."""
    try:
        data = read_input(path)
    except OSError as failure:
        raise PrunecastError(f"The plan {path} cannot be read: {failure.strerror}.") from failure
    require(len(data) <= LARGEST_FILE, f"{path} is not a plan: it has {len(data):,} bytes.")
    try:
        return data.decode()
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        raise PrunecastError(
            f"{path}, line {line}: the text is not UTF-8; save the plan as UTF-8."
        ) from failure


def _parsed(text: str, place: str) -> dict[str, Any]:
    """The tables of a plan. Text that would take the parser minutes, or overflow its stack, is refused."""
    require(LONG_KEY.search(text) is None, f"{place} has a key of more than {MOST_PARTS} parts; shorten it.")
    try:
        body = tomllib.loads(text)
        repr(body)  # fails for a hexadecimal number with more digits than Python writes
        return body
    except (
        tomllib.TOMLDecodeError,
        ValueError,
    ) as failure:  # the latter for a date or a number that cannot be
        raise PrunecastError(f"{place} is not a TOML file: {failure}.") from failure
    except RecursionError as failure:
        raise PrunecastError(
            f"{place} nests lists or tables too deeply; no key of a plan needs that."
        ) from failure


def parse_plan(
    text: str,
    *,
    name: str,
    place: str = "",
    folder: Path = Path(),
    scale: str = FULL,
    data: Path | None = None,
) -> Plan:
    """Make the chains of a plan from its text.

    Keys of a [[grid]] override those of the scale, which override those of the file. Error messages call the plan
    `place` or else `name`. Paths in the plan are relative to `folder`.
    """
    place = place or name
    body = _parsed(text, place)
    require_known_keys(place, body, (*KEYS, "scale"))
    body = _at_scale(body, scale, place)
    grids = body.pop("grid", [{}])
    tables = isinstance(grids, list) and bool(grids) and all(isinstance(grid, dict) for grid in grids)
    require(tables, f"{place}: write a grid as [[grid]], with two brackets.")
    chains: dict[str, PlannedChain] = {}
    places = DataPlaces(folder=folder, datasets=_datasets_folder(data))
    for number, grid in enumerate(grids, 1):
        where = f"{place}, grid {number}" if len(grids) > 1 else place
        require_known_keys(where, grid, [key for key in KEYS if key != "grid"])
        for chain in grid_chains({**body, **grid}, where, folder, places.training_examples):
            placed = dataclasses.replace(chain, root=places.path(chain.spec, chain.root))
            chains.setdefault(chain.spec.digest, placed)
        check_count(len(chains), place)
    return Plan(
        name=name if scale == FULL else f"{name}-{scale}",
        chains=tuple(chains.values()),
        data=places.datasets,
    )


def _at_scale(body: Mapping[str, Any], scale: str, place: str) -> dict[str, Any]:
    """The keys of a plan at a scale: those of `[scale.NAME]`, `grid` included, replace the file's."""
    tables = body.get("scale", {})
    known = isinstance(tables, dict) and all(isinstance(table, dict) for table in tables.values())
    require(known, f"{place}: write a scale as [scale.NAME], with the keys that it changes below it.")
    require(FULL not in tables, f"{place}: [scale.{FULL}] is the file as it is; choose another name.")
    valid = ", ".join((*tables, FULL))
    require(scale == FULL or scale in tables, f"{place} has no scale {scale!r}; choose one of {valid}.")
    for name, table in tables.items():
        named = bool(SCALE_NAME.fullmatch(name))
        remedy = "use up to 100 letters, digits, spaces, dots, hyphens and underscores"
        require(named, f"{place}: the scale {name!r} cannot be part of a file's name; {remedy}.")
        require_known_keys(f"{place}, [scale.{name}]", table, KEYS)
    kept = {key: value for key, value in body.items() if key != "scale"}
    return {**kept, **tables.get(scale, {})}


class DataPlaces:
    """Finds the data of a plan and counts its training examples, once for each dataset."""

    def __init__(self, folder: Path, datasets: Path | None) -> None:
        """`folder` is the plan's; `datasets` holds the datasets."""
        self.folder, self.datasets = folder, datasets
        self._paths: dict[tuple[str, Path | None], Path | None] = {}
        self._counts: dict[DataKey, int] = {}

    def path(self, spec: ChainSpec, root: Path | None) -> Path | None:
        """The path of a chain's data; `root` is what the plan gives."""
        key = spec.loader or spec.dataset, root
        if key not in self._paths:
            self._paths[key] = (
                _dataset_path(key[0], self.datasets)
                if root is None
                else _own_path(root, self.folder, self.datasets)
            )
        return self._paths[key]

    def training_examples(self, spec: ChainSpec, root: Path | None) -> int:
        """The number of training examples of a chain's data. Official data need not be here for that."""
        path = self.path(spec, root)
        key = _key_of_data(spec, path)
        if key not in self._counts:
            self._counts[key] = self._count(spec, key[0], path)
        return self._counts[key]

    def _count(self, spec: ChainSpec, name: str, path: Path | None) -> int:
        facts = find_dataset(spec.dataset, spec.loader)
        here = path is not None and path.exists()
        if facts is not None and not (here and spec.loader in ("folder", "arrays")):
            return facts.train_examples
        if not here and ":" not in name:
            where = "its root" if path is None else str(path)
            raise PrunecastError(
                f'num_examples as a share, or "{ALL}", needs the images of {spec.dataset}, but {where} '
                "does not exist; put them there, or give a number."
            )
        split = Split(test_share=spec.test_share, seed=spec.split_seed)
        return training_examples(name, root=path, image_size=spec.image_size, split=split)


def _datasets_folder(given: Path | None) -> Path | None:
    """The folder of datasets, given or from the environment; absolute, because workers may run elsewhere."""
    named = given or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else None


def _dataset_path(dataset: str, datasets: Path | None) -> Path | None:
    """The path of a dataset in a folder of datasets; None if it is missing, or needs no files.

    A subfolder with the dataset's name comes before official files in the folder itself.
    """
    facts = None if ":" in dataset else find_dataset(dataset)
    if datasets is None or facts is None or not facts.download:
        return None
    subfolder = datasets / dataset
    if subfolder.is_dir():
        return subfolder
    found = next((datasets / name for name in facts.files if (datasets / name).exists()), None)
    return datasets if found is not None and found.suffix == ".mat" else found


def _own_path(root: Path, folder: Path, datasets: Path | None) -> Path:
    """The path of a plan's `root`: relative to the plan if it exists there, else in the folder of datasets."""
    if datasets is None or root.exists() or not root.is_relative_to(folder):
        return root
    other = datasets / root.relative_to(folder)
    return other if other.exists() else root


Datasets = dict[DataKey, Dataset]
"""Datasets in memory, so that chains on the same data load them once."""


def loader(chain: PlannedChain, device: torch.device, loaded: Datasets) -> Callable[[], Dataset]:
    """A function that loads a chain's dataset once, when it is first needed."""
    key = data_key(chain)

    def get() -> Dataset:
        if key not in loaded:
            loaded[key] = load_for(chain.spec, root=chain.root, device=device)
        return loaded[key]

    return get


def data_key(chain: PlannedChain) -> DataKey:
    """Equal for chains on the same data."""
    return _key_of_data(chain.spec, chain.root)


def _key_of_data(spec: ChainSpec, path: Path | None) -> DataKey:
    return spec.loader or spec.dataset, path, spec.image_size, spec.test_share, spec.split_seed

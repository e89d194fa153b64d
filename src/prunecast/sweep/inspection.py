"""Checks the data and the networks of a plan before anything trains, so that mistakes show in seconds, not hours.

`run` reads all data. `plan` reads your own data and relies on known facts about official datasets, which need not be
there yet.
"""

import dataclasses
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from prunecast import families
from prunecast.catalog import DatasetFacts, Shape, architecture, find_dataset
from prunecast.data import Dataset, Split
from prunecast.errors import PrunecastError, require
from prunecast.pruning import check_method, check_structure, fitting, read_start
from prunecast.spec import n_of_m
from prunecast.sweep.grid import NetworkSize, PlannedChain
from prunecast.sweep.plan import (
    VARIABLE,
    DataKey,
    Datasets,
    Plan,
    data_key,
    loader,
)
from prunecast.text import listed
from prunecast.training import check_loss, check_recipe

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class DataSeen:
    """A dataset as it is on disk."""

    root: Path | None
    facts: DatasetFacts
    split: Split | None
    """How prunecast splits it; None if it has a test set."""


NetworkKey = tuple[str, int, float, DataKey]


def network_key(chain: PlannedChain) -> NetworkKey:
    """Equal for chains of the same network on the same data."""
    return chain.spec.family, chain.spec.depth, chain.spec.width, data_key(chain)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A plan whose chains know the facts about their data and the sizes of their networks."""

    plan: Plan
    data: tuple[DataSeen, ...]
    """The datasets that were read, each once."""
    absent: tuple[DatasetFacts, ...]
    """Official datasets that have to be downloaded before the plan can run."""


def inspect(plan: Plan, *, official: bool = True) -> Inspection:
    """Look at a plan's data and networks, and refuse a plan that cannot run.

    Reasons are data that is missing, unreadable or too small, a size that the family does not have, a recipe or method
    that names something that cannot be imported, and starting weights of another network. Without `official`, datasets
    that are known by name are not read and may be missing.
    """
    check_parts(plan)
    _check_roots(plan)
    _check_axes(plan)
    absent = _needed_downloads(plan, refuse=official)
    loaded: Datasets = {}
    seen: dict[DataKey, DataSeen] = {}
    for chain in plan.chains:
        known = chain.spec.loader is None and find_dataset(chain.spec.dataset) is not None
        if data_key(chain) not in seen and (official or not known):
            seen[data_key(chain)] = _read(plan, chain, loaded)
    chains = tuple(
        dataclasses.replace(chain, seen=seen[data_key(chain)].facts if data_key(chain) in seen else None)
        for chain in plan.chains
    )
    _check_examples(plan.name, chains)
    for recipe, num_classes in dict.fromkeys((own.spec.recipe, image_facts(own)[1]) for own in chains):
        check_loss(recipe, num_classes)
    sizes = _sizes(chains)
    _check_own_weights(chains)
    check_starts(chains)
    sized = tuple(dataclasses.replace(chain, size=sizes[network_key(chain)]) for chain in chains)
    return Inspection(plan=dataclasses.replace(plan, chains=sized), data=tuple(seen.values()), absent=absent)


def check_data(plan: Plan) -> None:
    """Refuse a plan whose data is missing, and say where to get it."""
    _check_roots(plan)
    _needed_downloads(plan, refuse=True)


def _check_roots(plan: Plan) -> None:
    """Refuse a plan that names a missing path of data."""
    for root in sorted({chain.root for chain in plan.chains if chain.root is not None}):
        if not root.exists():
            remedy = "put it there, or name the folder that holds it with --data"
            raise PrunecastError(
                f"The plan {plan.name} reads its data from {root}, which does not exist; {remedy}."
            )


def _needed_downloads(plan: Plan, *, refuse: bool) -> tuple[DatasetFacts, ...]:
    """The official datasets of a plan that are missing; with `refuse`, the first one is an error."""
    nowhere = {chain.spec.loader or chain.spec.dataset for chain in plan.chains if chain.root is None}
    known = (None if ":" in name else find_dataset(name) for name in sorted(nowhere))
    missing = tuple(facts for facts in known if facts is not None and facts.download)
    if missing and refuse:
        raise PrunecastError(_missing(plan, missing[0]))
    return missing


def _missing(plan: Plan, facts: DatasetFacts) -> str:
    needs = f"The plan {plan.name} needs {facts.title or facts.name}"
    if plan.data:
        where, remedy = f"which is not in {plan.data}", f"or name another folder with --data or {VARIABLE}"
    else:
        where, remedy = (
            "but no folder with datasets is set",
            f"and name that folder with --data or {VARIABLE}",
        )
    return f"{needs}, {where}; put {facts.download} into {plan.data or 'a folder'} {remedy}."


def _read(plan: Plan, chain: PlannedChain, loaded: Datasets) -> DataSeen:
    try:
        data = loader(chain, torch.device("cpu"), loaded)()
        require(
            data.num_classes > 1,
            f"{chain.root or data.name} has only one class; give images of at least two.",
        )
    except PrunecastError as problem:
        raise PrunecastError(f"The plan {plan.name}: {problem}") from problem
    return DataSeen(root=chain.root, facts=facts_of(chain.spec.dataset, data), split=data.split)


def _check_examples(plan: str, chains: Iterable[PlannedChain]) -> None:
    """Refuse a plan that needs more examples than its data has, held-out ones included."""
    short: dict[tuple[str, int, int], set[int]] = {}
    for chain in chains:
        assert chain.facts is not None, "data that is not known by name has been looked at"
        spec, total, held = chain.spec, chain.facts.train_examples, chain.spec.recipe.validation_examples
        if spec.num_examples + held > total:
            short.setdefault((spec.dataset, total, held), set()).add(spec.num_examples)
    for (dataset, total, held), asked in short.items():
        wanted = " and ".join(f"{number:,}" for number in sorted(asked))
        kept = f", {held:,} of them held out by validation_examples" if held else ""
        remedy = f"give at most {total - held:,}" if total > held else "hold out fewer"
        raise PrunecastError(
            f"The plan {plan} asks for num_examples {wanted}, but {dataset} has {total:,} training examples{kept}; "
            f"{remedy}."
        )


def _check_axes(plan: Plan) -> None:
    """Refuse several depths or widths of a family without that argument, because they would be one network."""
    for family in dict.fromkeys(chain.spec.family for chain in plan.chains if ":" in chain.spec.family):
        taken = families.arguments(family)
        for axis in ("depth", "width"):
            sizes = {getattr(chain.spec, axis) for chain in plan.chains if chain.spec.family == family}
            if axis not in taken and len(sizes) > 1:
                some = listed(f"{size:g}" for size in sorted(sizes))
                raise PrunecastError(
                    f"The plan {plan.name}: {family!r} has no argument {axis}, so networks of {axis} {some} would be "
                    f"the same; add the argument, or give one {axis}."
                )


def check_parts(plan: Plan) -> None:
    """Refuse a plan whose recipes or methods name something that cannot be imported or used."""
    for recipe, num_examples in dict.fromkeys(
        (chain.spec.recipe, chain.spec.num_examples) for chain in plan.chains
    ):
        check_recipe(recipe, num_examples)
    for method in dict.fromkeys(chain.spec.method for chain in plan.chains):
        check_method(method)


def check_starts(chains: Iterable[PlannedChain]) -> None:
    """Refuse starting weights of another network."""
    checked: set[tuple[NetworkKey, Path]] = set()
    for chain in chains:
        if chain.start is None or (network_key(chain), chain.start) in checked:
            continue
        checked.add((network_key(chain), chain.start))
        fitting(read_start(chain.start), chain.spec, build_network(chain), str(chain.start))


def _check_own_weights(chains: Iterable[PlannedChain]) -> None:
    """Refuse families whose own initial weights are not reproducible."""
    keeping = (chain for chain in chains if chain.spec.recipe.initial_weights == "own")
    for chain in first_of_each(keeping, lambda chain: chain.spec.family):
        families.check_own_weights(chain.spec.family, **network_arguments(chain))


def image_facts(chain: PlannedChain) -> tuple[Shape, int]:
    """The shape of a chain's images and the number of classes."""
    assert chain.facts is not None, "data that is not known by name has been looked at"
    return chain.facts.shape_at(chain.spec.image_size), chain.facts.num_classes


def network_arguments(chain: PlannedChain) -> dict[str, Any]:
    """The arguments with which a family builds the network of a chain."""
    shape, num_classes = image_facts(chain)
    size = {"depth": chain.spec.depth, "width": chain.spec.width}
    return {**size, "num_classes": num_classes, "image_shape": shape}


def build_network(chain: PlannedChain) -> nn.Module:
    """The network of a chain, with arbitrary weights."""
    return families.build(chain.spec.family, **network_arguments(chain))


def network_outline(chain: PlannedChain) -> nn.Module:
    """The network of a chain without values, to look at its structure."""
    return families.outline(chain.spec.family, **network_arguments(chain))


def first_of_each(chains: Iterable[PlannedChain], key: Callable[[PlannedChain], T]) -> list[PlannedChain]:
    """The first chain with each value of `key`."""
    found: dict[T, PlannedChain] = {}
    for chain in chains:
        found.setdefault(key(chain), chain)
    return list(found.values())


def _sizes(chains: Iterable[PlannedChain]) -> dict[NetworkKey, NetworkSize]:
    sizes: dict[NetworkKey, NetworkSize] = {}
    checked: set[tuple[NetworkKey, str]] = set()
    for chain in chains:
        key, spec = network_key(chain), chain.spec
        structure = (key, spec.method.structure)
        if structure in checked:
            continue
        try:
            if key not in sizes:
                sizes[key] = size_of(spec.family, **network_arguments(chain))
            if ":" in spec.family or n_of_m(spec.method.structure) is not None:
                check_structure(spec.method, network_outline(chain), image_facts(chain)[0])
            checked.add(structure)
        except PrunecastError as problem:
            network = f"{spec.family} of depth {spec.depth} and width {spec.width:g} on {spec.dataset}"
            raise PrunecastError(f"{network}: {problem}") from problem
    return sizes


def size_of(family: str, **arguments: Any) -> NetworkSize:
    """The size of a network; a user's own is built and run."""
    if ":" not in family:
        layers = architecture(family, **arguments)
        return NetworkSize(
            parameters=layers.parameters, weights=layers.weights, multiply_adds=layers.multiply_adds
        )
    model = families.build(family, **arguments)
    multiply_adds = families.try_network(model, arguments["image_shape"], arguments["num_classes"])
    return NetworkSize(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        weights=sum(model.get_parameter(name).numel() for name in families.prunable(model)),
        multiply_adds=multiply_adds,
    )


def facts_of(name: str, data: Dataset) -> DatasetFacts:
    """The facts about a dataset that was read."""
    return DatasetFacts(
        name=name,
        num_classes=data.num_classes,
        chance_error=data.chance_error,
        image_shape=data.train.image_shape,
        train_examples=len(data.train),
        test_examples=len(data.test),
    )

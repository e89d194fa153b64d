"""What a plan needs, looked at before anything trains, so that a mistake is found in seconds and not after hours.

`run` looks at all data. `plan` looks at data of your own, and relies on the known facts about official datasets, which
need not be there yet.
"""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from prunecast import families
from prunecast.catalog import DatasetFacts, Shape, architecture, find_dataset
from prunecast.data import Dataset, Split
from prunecast.errors import PrunecastError
from prunecast.spec import ChainSpec
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import (
    DataKey,
    Datasets,
    Plan,
    check_examples,
    check_roots,
    data_key,
    loader,
    needed_downloads,
)
from prunecast.text import listed


@dataclass(frozen=True, kw_only=True)
class DataSeen:
    """A dataset as it is on disk."""

    root: Path | None
    facts: DatasetFacts
    split: Split | None
    """How prunecast splits it; None if it has a test half."""


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a network."""

    parameters: int
    weights: int
    """Prunable weights."""
    multiply_adds: int
    """Per image, unpruned."""


NetworkKey = tuple[str, int, float, DataKey]


def network_key(chain: PlannedChain) -> NetworkKey:
    """Equal for chains of the same network on the same data."""
    return chain.spec.family, chain.spec.depth, chain.spec.width, data_key(chain)


@dataclass(frozen=True, kw_only=True)
class Inspection:
    """A plan whose chains know their data."""

    plan: Plan
    data: tuple[DataSeen, ...]
    """The datasets that were read, each once."""
    absent: tuple[DatasetFacts, ...]
    """Official datasets that have to be downloaded before the plan can run."""
    sizes: dict[NetworkKey, Size]
    """The size of every network."""


def inspect(plan: Plan, *, official: bool = True) -> Inspection:
    """Look at a plan's data and networks, and refuse a plan that cannot run.

    Its data may be missing, unreadable or too small, and a family may not have one of the sizes.
    Without `official`, datasets that are known by name are not read and may be missing.
    """
    check_roots(plan)
    _check_axes(plan)
    absent = needed_downloads(plan, refuse=official)
    loaded: Datasets = {}
    seen: dict[DataKey, DataSeen] = {}

    def count(chain: PlannedChain) -> int | None:
        key, known = data_key(chain), find_dataset(chain.spec.dataset, chain.spec.loader)
        if not official and known is not None and chain.spec.loader is None:
            return known.train_examples
        if key not in seen:
            seen[key] = _seen(chain, loader(chain, torch.device("cpu"), loaded)())
        return seen[key].facts.train_examples

    check_examples(plan, count)
    chains = tuple(
        dataclasses.replace(chain, seen=seen[data_key(chain)].facts if data_key(chain) in seen else None)
        for chain in plan.chains
    )
    return Inspection(
        plan=dataclasses.replace(plan, chains=chains),
        data=tuple(seen.values()),
        absent=absent,
        sizes=_sizes(chains),
    )


def _check_axes(plan: Plan) -> None:
    """Refuse several depths or widths of a family that does not take them, because they would be one network."""
    for family in dict.fromkeys(chain.spec.family for chain in plan.chains if ":" in chain.spec.family):
        taken = families.arguments(family)
        for axis in ("depth", "width"):
            sizes = {getattr(chain.spec, axis) for chain in plan.chains if chain.spec.family == family}
            if axis not in taken and len(sizes) > 1:
                some = listed(f"{size:g}" for size in sorted(sizes))
                raise PrunecastError(
                    f"The plan {plan.name}: {family!r} takes no argument {axis}, so those of {axis} {some} would "
                    f"be the same; add the argument, or give one {axis}."
                )


def _sizes(chains: Iterable[PlannedChain]) -> dict[NetworkKey, Size]:
    sizes: dict[NetworkKey, Size] = {}
    for chain in chains:
        key, spec = network_key(chain), chain.spec
        if key in sizes:
            continue
        try:
            sizes[key] = _size(chain)
        except PrunecastError as problem:
            network = f"{spec.family} of depth {spec.depth} and width {spec.width:g} on {spec.dataset}"
            raise PrunecastError(f"{network}: {problem}") from problem
    return sizes


def _own_size(spec: ChainSpec, shape: Shape, num_classes: int) -> Size:
    """Build and run a network of a user's own."""
    model = families.build(
        spec.family,
        depth=spec.depth,
        width=spec.width,
        num_classes=num_classes,
        generator=torch.Generator().manual_seed(0),
        image_shape=shape,
    )
    return Size(
        parameters=sum(own.numel() for own in model.parameters()),
        weights=sum(model.get_parameter(name).numel() for name in families.prunable(model)),
        multiply_adds=families.try_network(model, shape, num_classes),
    )


def _size(chain: PlannedChain) -> Size:
    spec, facts = chain.spec, chain.facts
    assert facts is not None, "data that is not known by name has been looked at"
    shape = facts.image_shape
    if spec.image_size is not None:
        shape = (shape[0], spec.image_size, spec.image_size)
    if ":" in spec.family:
        return _own_size(spec, shape, facts.num_classes)
    network = architecture(
        spec.family, depth=spec.depth, width=spec.width, num_classes=facts.num_classes, image_shape=shape
    )
    return Size(parameters=network.parameters, weights=network.weights, multiply_adds=network.multiply_adds)


def _seen(chain: PlannedChain, data: Dataset) -> DataSeen:
    if data.num_classes < 2:
        raise PrunecastError(f"{chain.root or data.name} has one class; give images of at least two.")
    facts = DatasetFacts(
        name=chain.spec.dataset,
        num_classes=data.num_classes,
        chance_error=data.chance_error,
        image_shape=data.train.image_shape,
        train_examples=len(data.train),
        test_examples=len(data.test),
    )
    return DataSeen(root=chain.root, facts=facts, split=data.split)

"""The networks, chains and multiply-adds of a plan, counted before anything runs."""

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from prunecast.catalog import FAMILIES, DatasetFacts, architecture, find_dataset
from prunecast.families import (
    KeptWhole,
    NotPrunable,
    find_units,
    like_a_transformer,
    not_prunable,
    prunable,
    replaces_weights,
)
from prunecast.pruning import NOfM, structure_of
from prunecast.spec import CHANNELS, ChainSpec, as_columns, n_of_m
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.inspection import (
    DataSeen,
    image_facts,
    inspect,
    network_outline,
)
from prunecast.sweep.plan import Plan
from prunecast.training import timeline

AXES = ("family", "dataset", "recipe", "method", "depth", "width", "num_examples", "replicate")
TRAINING_WORK = 3
"""Multiply-adds of a training step relative to a forward pass: the backward pass costs two forward passes."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """One network of a plan: a family at one size, on one dataset."""

    family: str
    dataset: str
    depth: int
    width: float
    parameters: int
    weights: int
    """Prunable weights."""
    chains: int
    training_runs: int
    """The most there can be, if every chain reaches its level cap."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A plan in numbers."""

    name: str
    plan: Plan
    """The plan itself; its chains know the data that was looked at."""
    axes: dict[str, list[object]]
    """Every axis of the grid with its values."""
    networks: tuple[Network, ...]
    chains: int
    training_runs: int
    """The most there can be, if every chain reaches its level cap."""
    level_caps: tuple[int, ...]
    epochs: float
    """Passes of one network over its examples, at most. Later levels start at the rewind point."""
    selecting: int
    """Chains that are subject to the selection rule."""
    data: tuple[DataSeen, ...] = ()
    """The datasets that were looked at."""
    absent: tuple[DatasetFacts, ...] = ()
    """Official datasets that have to be downloaded before the plan can run."""


def overview(plan: Plan) -> Overview:
    """Count the networks, chains and training runs of a plan.

    Refuses what `run` would refuse, as far as it can be known: official datasets need not be here yet.
    """
    inspection = inspect(plan, official=False)
    plan = inspection.plan
    groups: dict[tuple[str, str, int, float], list[PlannedChain]] = {}
    for chain in plan.chains:
        spec = chain.spec
        groups.setdefault((spec.family, spec.dataset, spec.depth, spec.width), []).append(chain)
    networks = tuple(_network(chains) for chains in groups.values())
    return Overview(
        name=plan.name,
        plan=plan,
        axes=_axes(plan.chains),
        networks=networks,
        chains=len(plan.chains),
        training_runs=sum(network.training_runs for network in networks),
        level_caps=tuple(sorted({chain.rules.level_cap for chain in plan.chains})),
        epochs=sum(_epochs(chain) for chain in plan.chains),
        selecting=sum(chain.select is not None for chain in plan.chains),
        data=inspection.data,
        absent=inspection.absent,
    )


@dataclass(frozen=True, kw_only=True)
class NeverPruned:
    """Tensors, other than vectors, of a network in a plan that are never pruned."""

    family: str
    depth: int
    width: float
    tensors: tuple[NotPrunable, ...]
    parameters: int
    """All parameters of that network."""
    structure: str = ""
    """The structure N:M into whose groups the tensors cannot be divided; empty where they are not prunable at all."""


def never_pruned(plan: Plan) -> tuple[NeverPruned, ...]:
    """The tensors that stay dense, for each family that has some, counted in its smallest network.

    A structure N:M leaves other tensors dense at each width, so the smallest network of each width counts. A family
    that cannot be built is left out, because the run reports why; so is a chain whose data was not read.
    """
    chains = [chain for chain in plan.chains if chain.facts is not None]
    whole: dict[str, PlannedChain] = {}
    for chain in sorted(chains, key=lambda chain: (chain.spec.depth, chain.spec.width)):
        whole.setdefault(chain.spec.family, chain)
    grouped: dict[tuple[str, float, str], PlannedChain] = {}
    for chain in sorted(chains, key=lambda chain: (chain.spec.width, chain.spec.depth)):
        structure = chain.spec.method.structure
        if n_of_m(structure) is not None:
            grouped.setdefault((chain.spec.family, chain.spec.width, structure), chain)
    found = [
        *(_kept_dense(chain) for chain in whole.values()),
        *(_kept_dense(chain, structure) for (_, _, structure), chain in grouped.items()),
    ]
    return tuple(dense for dense in found if dense is not None)


@dataclass(frozen=True, kw_only=True)
class RemovableUnits:
    """What removing channels can take out of a network in a plan."""

    family: str
    depth: int
    width: float
    units: int
    groups: int
    """Of each, one unit is always left."""
    least: float
    """The share of the parameters that is left then."""
    kept_whole: tuple[KeptWhole, ...]
    """Layers with outputs that are never removed."""


def removable_units(plan: Plan) -> tuple[RemovableUnits, ...]:
    """The units of each user's own family that loses channels, counted in its smallest network."""
    smallest: dict[str, PlannedChain] = {}
    for chain in sorted(plan.chains, key=lambda chain: (chain.spec.depth, chain.spec.width)):
        if chain.spec.method.structure == CHANNELS and ":" in chain.spec.family and chain.facts is not None:
            smallest.setdefault(chain.spec.family, chain)
    return tuple(map(_removable, smallest.values()))


def _removable(chain: PlannedChain) -> RemovableUnits:
    units = find_units(network_outline(chain), image_facts(chain)[0])
    sizes = [units.sizes(kept) for kept in (units.everything(), units.first(dict.fromkeys(units.names, 1)))]
    return RemovableUnits(
        family=chain.spec.family,
        depth=chain.spec.depth,
        width=chain.spec.width,
        units=len(units),
        groups=len(units.names),
        least=sizes[1].parameters / sizes[0].parameters,
        kept_whole=units.kept_whole,
    )


def _kept_dense(chain: PlannedChain, structure: str = "") -> NeverPruned | None:
    """The tensors of a chain's network that are not prunable, or that a structure N:M leaves dense."""
    try:
        model = network_outline(chain)
    except Exception:  # a user's own function raises anything
        return None
    if structure:
        groups = structure_of(structure)(model)
        assert isinstance(groups, NOfM)
        tensors = groups.kept_dense()
    else:
        tensors = not_prunable(model, prunable(model))
    if not tensors:
        return None
    return NeverPruned(
        family=chain.spec.family,
        depth=chain.spec.depth,
        width=chain.spec.width,
        tensors=tensors,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        structure=structure,
    )


def replaced_weights(plan: Plan) -> tuple[str, ...]:
    """The functions of a user's own whose networks are like transformers, but whose initial weights are replaced."""
    drawn = {
        chain.spec.family: chain
        for chain in reversed(plan.chains)
        if chain.spec.recipe.initial_weights != "own" and chain.spec.start is None
    }
    return tuple(family for family, chain in reversed(drawn.items()) if _replaced(chain))


def _replaced(chain: PlannedChain) -> bool:
    if chain.facts is None or not replaces_weights(chain.spec.family):
        return False
    try:
        return like_a_transformer(network_outline(chain))
    except Exception:  # the run reports why
        return False


def _epochs(chain: PlannedChain) -> float:
    return chain_steps(chain) / timeline(chain.spec.recipe, chain.spec.num_examples).epoch


def _network(chains: list[PlannedChain]) -> Network:
    spec, size = chains[0].spec, chains[0].size
    assert size is not None, "the plan was looked at"
    return Network(
        family=spec.family,
        dataset=spec.dataset,
        depth=spec.depth,
        width=spec.width,
        parameters=size.parameters,
        weights=size.weights,
        chains=len(chains),
        training_runs=sum(chain.rules.level_cap + 1 for chain in chains),
    )


def _axes(chains: Iterable[PlannedChain]) -> dict[str, list[object]]:
    columns = [as_columns(chain.spec) for chain in chains]
    return {axis: list(dict.fromkeys(own[axis] for own in columns)) for axis in AXES}


@functools.cache
def multiply_adds(family: str, depth: int, width: float) -> float:
    """Multiply-adds per image. For a user's own family it is 1e6 · depth · width², which is enough to order chains."""
    if family not in FAMILIES or depth not in FAMILIES[family].depths:
        return 1e6 * depth * width**2
    return float(architecture(family, depth=depth, width=width, num_classes=10).multiply_adds)


def training_steps(spec: ChainSpec, level: int) -> int:
    """Training steps of a level. Later levels start at the rewind point; a trained start needs no training at all."""
    if level == 0 and spec.start_trained:
        return 0
    times = timeline(spec.recipe, spec.num_examples)
    whole = level == 0 or spec.method.before_training
    return times.total if whole else times.total - times.rewind


def chain_steps(chain: PlannedChain) -> int:
    """Training steps of a chain up to its level cap."""
    return training_steps(chain.spec, 0) + chain.rules.level_cap * training_steps(chain.spec, 1)


def evaluated_images(spec: ChainSpec, facts: DatasetFacts | None = None) -> int:
    """Images evaluated after a level: the test set, the training examples and the held-out ones."""
    facts = facts or find_dataset(spec.dataset, spec.loader)
    test = facts.test_examples if facts else spec.num_examples
    return spec.num_examples + test + spec.recipe.validation_examples


def chain_images(chain: PlannedChain) -> int:
    """Images evaluated by a chain up to its level cap."""
    return (chain.rules.level_cap + 1) * evaluated_images(chain.spec, chain.facts)


def level_work(spec: ChainSpec, level: int) -> float:
    """Multiply-adds of one level, evaluation included."""
    times = timeline(spec.recipe, spec.num_examples)
    images = TRAINING_WORK * training_steps(spec, level) * times.batch + evaluated_images(spec)
    return images * multiply_adds(spec.family, spec.depth, spec.width)


def chain_work(chain: PlannedChain, done: int = 0) -> float:
    """Multiply-adds of a chain from level `done` to its level cap."""
    later = chain.rules.level_cap + 1 - max(done, 1)
    first = level_work(chain.spec, 0) if done == 0 else 0.0
    return first + max(0, later) * level_work(chain.spec, 1)

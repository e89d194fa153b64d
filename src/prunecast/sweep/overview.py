"""What a plan would do: its networks, chains and training runs, and what pruning cannot remove."""

from dataclasses import dataclass

from prunecast.catalog import DatasetFacts
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
from prunecast.spec import CHANNELS, as_columns, n_of_m
from prunecast.sweep.cost import chain_steps
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.inspection import DataSeen, first_of_each, image_facts, inspect, network_outline
from prunecast.sweep.plan import Plan
from prunecast.training import timeline

AXES = ("family", "dataset", "recipe", "method", "depth", "width", "num_examples", "replicate")


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
    columns = [as_columns(chain.spec) for chain in plan.chains]
    networks: dict[tuple[str, str, int, float], list[PlannedChain]] = {}
    for chain in plan.chains:
        spec = chain.spec
        networks.setdefault((spec.family, spec.dataset, spec.depth, spec.width), []).append(chain)
    return Overview(
        name=plan.name,
        plan=plan,
        axes={axis: list(dict.fromkeys(own[axis] for own in columns)) for axis in AXES},
        networks=tuple(map(_network, networks.values())),
        chains=len(plan.chains),
        training_runs=sum(chain.rules.level_cap + 1 for chain in plan.chains),
        level_caps=tuple(sorted({chain.rules.level_cap for chain in plan.chains})),
        epochs=sum(
            chain_steps(chain) / timeline(chain.spec.recipe, chain.spec.num_examples).epoch
            for chain in plan.chains
        ),
        selecting=sum(chain.select is not None for chain in plan.chains),
        data=inspection.data,
        absent=inspection.absent,
    )


def _network(chains: list[PlannedChain]) -> Network:
    spec, size = chains[0].spec, chains[0].size
    assert size is not None, "the plan was inspected"
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
    """The structure N:M that cannot divide the tensors into groups; empty if they are not prunable at all."""


def never_pruned(plan: Plan) -> tuple[NeverPruned, ...]:
    """The tensors that stay dense, for each family that has some, counted in its smallest network.

    A structure N:M leaves other tensors dense at each width, so the smallest network of each width counts. Families
    that cannot be built and chains whose data was not read are skipped; the run reports them.
    """
    chains = [chain for chain in plan.chains if chain.facts is not None]
    smallest = sorted(chains, key=lambda chain: (chain.spec.depth, chain.spec.width))
    narrowest = sorted(chains, key=lambda chain: (chain.spec.width, chain.spec.depth))
    grouped = (chain for chain in narrowest if n_of_m(chain.spec.method.structure) is not None)
    found = [
        *(_kept_dense(chain) for chain in first_of_each(smallest, lambda chain: chain.spec.family)),
        *(_kept_dense(chain, chain.spec.method.structure) for chain in first_of_each(grouped, _grouping)),
    ]
    return tuple(dense for dense in found if dense is not None)


def _grouping(chain: PlannedChain) -> tuple[str, float, str]:
    return chain.spec.family, chain.spec.width, chain.spec.method.structure


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


@dataclass(frozen=True, kw_only=True)
class RemovableUnits:
    """What removing channels can take out of a network in a plan."""

    family: str
    depth: int
    width: float
    units: int
    groups: int
    """One unit of each group always stays."""
    least: float
    """The share of the parameters that is left then."""
    kept_whole: tuple[KeptWhole, ...]
    """Layers whose outputs are never removed."""


def removable_units(plan: Plan) -> tuple[RemovableUnits, ...]:
    """The units of each user's own family that loses channels, counted in its smallest network."""
    losing = (
        chain
        for chain in sorted(plan.chains, key=lambda chain: (chain.spec.depth, chain.spec.width))
        if chain.spec.method.structure == CHANNELS and ":" in chain.spec.family and chain.facts is not None
    )
    return tuple(map(_removable, first_of_each(losing, lambda chain: chain.spec.family)))


def _removable(chain: PlannedChain) -> RemovableUnits:
    units = find_units(network_outline(chain), image_facts(chain)[0])
    whole, least = units.everything(), units.first(dict.fromkeys(units.names, 1))
    return RemovableUnits(
        family=chain.spec.family,
        depth=chain.spec.depth,
        width=chain.spec.width,
        units=len(units),
        groups=len(units.names),
        least=units.sizes(least).parameters / units.sizes(whole).parameters,
        kept_whole=units.kept_whole,
    )


def replaced_weights(plan: Plan) -> tuple[str, ...]:
    """A user's own families whose networks are like transformers, but whose initial weights are replaced."""
    drawn = (
        chain
        for chain in plan.chains
        if chain.spec.recipe.initial_weights != "own" and chain.spec.start is None
    )
    first = first_of_each(drawn, lambda chain: chain.spec.family)
    return tuple(chain.spec.family for chain in first if _replaced(chain))


def _replaced(chain: PlannedChain) -> bool:
    if chain.facts is None or not replaces_weights(chain.spec.family):
        return False
    try:
        return like_a_transformer(network_outline(chain))
    except Exception:  # the run reports why
        return False

"""What a plan would do, counted before anything runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from prunecast.catalog import FAMILIES, architecture, find_dataset
from prunecast.errors import PrunecastError
from prunecast.sweep.cost import steps
from prunecast.sweep.examples import check_examples, official
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.training.schedule import timeline


@dataclass(frozen=True, kw_only=True)
class Network:
    """One member of a family in a plan."""

    family: str
    dataset: str
    depth: int
    width: float
    parameters: int | None
    """All parameters; None where only building the network could tell."""
    weights: int | None
    """The prunable ones."""
    chains: int
    trainings: int
    """The most there can be: chains that reach their level cap."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """A plan in numbers."""

    name: str
    axes: dict[str, list[object]]
    """What varies and what does not: every axis with its values."""
    networks: tuple[Network, ...]
    chains: int
    trainings: int
    level_caps: tuple[int, ...]
    epochs: float
    """Passes of one network over its examples, at most; later levels begin at the rewind point."""
    selecting: int
    """Chains that are subject to the selection rule."""


def overview(plan: Plan) -> Overview:
    """Count the networks, chains and trainings of a plan.

    Depths that a family does not have are refused, and more examples than a dataset is known to have.
    """
    check_examples(plan, official)
    groups: dict[tuple[str, str, int, float], list[PlannedChain]] = {}
    for chain in plan.chains:
        spec = chain.spec
        groups.setdefault((spec.family, spec.dataset, spec.depth, spec.width), []).append(chain)
    networks = tuple(_network(chains) for chains in groups.values())
    return Overview(
        name=plan.name,
        axes=_axes(plan.chains),
        networks=networks,
        chains=len(plan.chains),
        trainings=sum(network.trainings for network in networks),
        level_caps=tuple(sorted({chain.rules.level_cap for chain in plan.chains})),
        epochs=sum(_epochs(chain) for chain in plan.chains),
        selecting=sum(chain.select is not None for chain in plan.chains),
    )


def _epochs(chain: PlannedChain) -> float:
    spec = chain.spec
    trained = steps(spec, 0) + chain.rules.level_cap * steps(spec, 1)
    return trained / timeline(spec.recipe, spec.num_examples).epoch


def _network(chains: list[PlannedChain]) -> Network:
    spec = chains[0].spec
    counts = _counts(chains[0])
    return Network(
        family=spec.family,
        dataset=spec.dataset,
        depth=spec.depth,
        width=spec.width,
        parameters=counts and counts[0],
        weights=counts and counts[1],
        chains=len(chains),
        trainings=sum(chain.rules.level_cap + 1 for chain in chains),
    )


def _counts(chain: PlannedChain) -> tuple[int, int] | None:
    """Parameters and prunable weights, where family and dataset are known by name."""
    spec = chain.spec
    facts = find_dataset(spec.dataset, spec.loader)
    if ":" in spec.family:
        return None
    if spec.family not in FAMILIES or facts is None:
        architecture(spec.family, depth=spec.depth, width=spec.width, num_classes=10)
        return None
    shape = facts.image_shape
    if spec.image_size is not None:
        shape = (shape[0], spec.image_size, spec.image_size)
    try:
        member = architecture(
            spec.family,
            depth=spec.depth,
            width=spec.width,
            num_classes=facts.num_classes,
            image_shape=shape,
        )
    except PrunecastError as problem:
        raise PrunecastError(f"{spec.family} of depth {spec.depth} on {spec.dataset}: {problem}") from problem
    return member.parameters, member.weights


def _axes(chains: Iterable[PlannedChain]) -> dict[str, list[object]]:
    specs = [chain.spec for chain in chains]
    values: dict[str, Iterable[object]] = {
        "family": (spec.family for spec in specs),
        "dataset": (spec.dataset for spec in specs),
        "recipe": (spec.recipe.name for spec in specs),
        "method": (spec.method.name for spec in specs),
        "depth": (spec.depth for spec in specs),
        "width": (spec.width for spec in specs),
        "num_examples": (spec.num_examples for spec in specs),
        "replicate": (spec.replicate for spec in specs),
    }
    return {axis: list(dict.fromkeys(own)) for axis, own in values.items()}

"""A plan's selection: chains whose unpruned network is too large for its data are left out of the sweep."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from prunecast.spec import TOLERANCE, ChainSpec, ErrorRise, Unpruned, pooled_noise, too_large

Key = tuple[object, ...]


@dataclass(frozen=True, kw_only=True)
class Select:
    """How the selection rule is applied."""

    tolerance: float = TOLERANCE
    """Standard errors by which a larger network may be worse before it counts as worse."""
    noise: float | None = None
    """Relative standard deviation of replicates; None takes it from the replicates themselves."""


def left_out(rule: Select, errors: Mapping[ChainSpec, float]) -> dict[ChainSpec, ErrorRise]:
    """The chains that the rule leaves out, with the reason; `errors` are those of level 0, by chain.

    Networks are compared only where all but depth and width is the same.
    """
    found: dict[ChainSpec, ErrorRise] = {}
    ordered = sorted(errors, key=lambda spec: (str(_group(spec)), spec.depth, spec.width))
    for _, members in itertools.groupby(ordered, key=_group):
        specs = list(members)
        reasons = _judge(rule, specs, errors)
        for spec in specs:
            if (spec.depth, spec.width) in reasons:
                found[spec] = reasons[spec.depth, spec.width]
    return found


def _group(spec: ChainSpec) -> Key:
    return (
        *(spec.family, spec.dataset, spec.loader, spec.image_size, spec.num_examples, spec.threads),
        *(spec.recipe, spec.method),
    )


def _noise(replicates: Sequence[Sequence[float]]) -> float:
    """σ of the replicates of each configuration; nothing where none was trained twice."""
    groups = np.repeat(np.arange(len(replicates)), [len(errors) for errors in replicates])
    return pooled_noise(np.concatenate(replicates), groups) or 0.0


def _judge(
    rule: Select, specs: Sequence[ChainSpec], errors: Mapping[ChainSpec, float]
) -> dict[tuple[float, float], ErrorRise]:
    found: dict[tuple[int, float], list[float]] = {}
    for spec in specs:
        found.setdefault((spec.depth, spec.width), []).append(errors[spec])
    noise = _noise(list(found.values())) if rule.noise is None else rule.noise
    means = [
        Unpruned(depth=depth, width=width, error=fmean(own), replicates=len(own))
        for (depth, width), own in found.items()
    ]
    return too_large(means, noise, rule.tolerance)

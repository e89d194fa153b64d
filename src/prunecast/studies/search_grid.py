"""The chains of a grid, how far each one matters for the targets, and the steps of a search."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

MARGIN, RISE = 1.15, 1.6
"""A chain ends once its error is this many times the highest target, and this many times its unpruned error."""
BEST_UNPRUNED, HIGHEST_UNPRUNED, LOWEST_UNPRUNED = 0.8, 0.95, 0.35
"""The unpruned error of the smallest network for a target, as a share of the target: the usual one, and limits that it
hardly ever exceeds."""
FIRST_SIZES, FIRST_CURVES = 5, 2
"""How many unpruned networks, which a dense law needs, and curves near the targets are trained before a law is used;
one curve is enough if others show the shape of the law."""
FEW_EXAMPLES = 1 / 30
"""Curves on at most this share of the examples are cheap: five whole ones take a sixth of the time of one on all
examples, or more if training runs are too short to use the device. Replayed searches took longer with a tenth."""
SIMILAR = 0.8
"""Unpruned errors with at least this ratio are about the same."""
FRONTIER_TARGETS = 5
LOWEST_TARGET, HIGHEST_TARGET = 1.25, 0.5
"""Default targets lie between this multiple of the least unpruned error and this share of the highest error."""


@dataclass(frozen=True, kw_only=True)
class GridChain:
    """One chain of a grid, and how far it was trained."""

    depth: float
    width: float
    num_examples: float
    replicate: int = 0
    level_cap: int = 40
    seconds: float = 1.0
    """of one training run"""
    errors: tuple[float, ...] = ()
    """of its levels so far"""
    ended: bool = False
    """whether it can be trained no further"""

    @property
    def size(self) -> tuple[float, float, float]:
        """Depth, width and number of examples."""
        return self.depth, self.width, self.num_examples

    @property
    def is_whole(self) -> bool:
        """Whether no level is left to train."""
        return self.ended or len(self.errors) > self.level_cap


def stop_error(targets: Sequence[float], unpruned_error: float, highest_unpruned: float = math.inf) -> float:
    """The error at which a chain can end, because further levels do not matter for the targets.

    Targets far above its unpruned error are left to smaller networks, unless the grid has none: `highest_unpruned` is
    the largest unpruned error of its networks.
    """
    near = [own for own in targets if own <= unpruned_error / LOWEST_UNPRUNED or own == min(targets)]
    if unpruned_error >= SIMILAR * highest_unpruned:
        near = list(targets)
    return max(MARGIN * max(near), RISE * unpruned_error)


def frontier_targets(unpruned_errors: Sequence[float], highest_error: float) -> tuple[float, ...]:
    """Five errors over the range of some networks, to two digits, so that they hardly change while more is trained.

    `highest_error` is what the networks' errors rise to: the error of guessing, or the law's high plateau. Where the
    unpruned errors are not far below it, the targets lie between the two, so that networks can meet them.
    """
    least = min(unpruned_errors)
    lowest = min(LOWEST_TARGET * least, float(np.sqrt(least * highest_error)))
    highest = max(HIGHEST_TARGET * highest_error, float(np.sqrt(lowest * highest_error)))
    return tuple(float(f"{target:.2g}") for target in np.geomspace(lowest, highest, FRONTIER_TARGETS))


class Reason(StrEnum):
    """Why something is trained."""

    START = "start"
    """an unpruned network of the starting design"""
    FIRST_CURVE = "first curve"
    """the curve of the network that should be about best for a target, before a law can be fitted"""
    LAW = "law"
    """a whole curve on few examples, which shows the shape of the law at little cost"""
    UNPRUNED = "unpruned"
    """its unpruned error reduces the doubt most per second"""
    CURVE = "curve"
    """its curve reduces the doubt most per second"""
    SHAPE = "shape"
    """nothing is expected to reduce the doubt much, and its whole curve shows the shape of the law"""
    LIKELY = "likely"
    """nothing is expected to reduce the doubt much, and it may be the smallest network itself"""
    REST = "rest"
    """nothing is expected to reduce the doubt much, and all networks that may be better are trained"""


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """A chain to train next, and how far."""

    chain: GridChain
    until_error: float | None
    """no level is trained after this error: infinite for a whole curve, None for the unpruned network alone"""
    reason: Reason
    gain: float = math.nan
    """expected reduction of the variance of the answers, as a share; NaN before a law can be fitted"""
    seconds: float = math.nan
    """the expected duration"""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The chains on the number of examples asked about, and the targets."""

    chains: Sequence[GridChain]
    targets: Sequence[float]

    @property
    def pruned(self) -> bool:
        """Whether any network was pruned; curves on fewer examples alone would give poor answers."""
        return any(len(chain.errors) > 1 for chain in self.chains)

    @cached_property
    def highest_unpruned(self) -> float:
        """The largest unpruned error that was measured."""
        return max((chain.errors[0] for chain in self.chains if chain.errors), default=math.inf)

    def stop_error(self, unpruned_error: float) -> float:
        """The error at which a chain can end."""
        return stop_error(self.targets, unpruned_error, self.highest_unpruned)

    def is_over(self, chain: GridChain) -> bool:
        """Whether a chain can end or has no further levels."""
        errors = chain.errors
        risen = bool(errors) and errors[-1] > self.stop_error(errors[0])
        return risen or chain.is_whole

    def step(self, chain: GridChain, reason: Reason, **expected: float) -> NextStep:
        """A step with a chain: its unpruned network first, whose error decides whether and how far to continue."""
        until = self.stop_error(chain.errors[0]) if chain.errors else None
        return NextStep(chain=chain, until_error=until, reason=reason, **expected)

    @cached_property
    def sizes(self) -> list[GridChain]:
        """One chain of each size, the one trained furthest."""
        return _one_of_each(self.chains)


def _one_of_each(chains: Sequence[GridChain]) -> list[GridChain]:
    """One chain of each size, the one trained furthest."""
    best: dict[tuple[float, float, float], GridChain] = {}
    for chain in chains:
        known = best.get(chain.size)
        if known is None or len(chain.errors) > len(known.errors):
            best[chain.size] = chain
    return list(best.values())


def law_chains(grid: Sequence[GridChain], examples: float) -> list[GridChain]:
    """The chains whose whole curves show the shape of the law, on the most examples that are still cheap."""
    few = [chain for chain in grid if chain.num_examples <= FEW_EXAMPLES * examples]
    most = max((chain.num_examples for chain in few), default=0.0)
    sizes = _one_of_each([chain for chain in few if chain.num_examples == most])
    return spread_out(sizes) if sizes else []


def spread_out(chains: Sequence[GridChain]) -> list[GridChain]:
    """Networks at the corners and in the middle of the grid, and others far from these, sorted by cost."""
    places = np.log([[chain.depth, chain.width] for chain in chains])
    places = (places - places.min(axis=0)) / np.maximum(np.ptp(places, axis=0), 1e-12)
    found: dict[int, None] = {}
    for share in [(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5)]:
        found[int(((places - share) ** 2).sum(axis=1).argmin())] = None
    while len(found) < min(FIRST_SIZES, len(chains)):
        apart = ((places[:, None] - places[list(found)]) ** 2).sum(axis=-1).min(axis=1)
        found[int(apart.argmax())] = None
    return sorted((chains[index] for index in found), key=lambda chain: chain.seconds)


def unlikely(unpruned_share: float) -> float:
    """How unlikely it is that a network is the smallest for a target; its unpruned error is a share of the target."""
    return abs(math.log(unpruned_share / BEST_UNPRUNED)) + (unpruned_share > HIGHEST_UNPRUNED)


def whole(chain: GridChain, reason: Reason) -> NextStep:
    """A chain to its end."""
    return NextStep(chain=chain, until_error=math.inf, reason=reason)

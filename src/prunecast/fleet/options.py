"""How a fleet uses its device, and the sizes it starts from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

BUDGET = 16.0
"""Widths added up in one pack, unless another size is found to be better on the device at hand."""
ON_CPU = 4.0
"""The same on a CPU, where a pack saves calls and nothing else."""
CANDIDATES = (8.0, 16.0, 32.0)
"""Budgets that are tried out on a GPU."""
FULL_PACKS = 2
"""Budgets that packs in training may add up to: two full packs, or several narrow ones."""
WITHIN = 1.05
"""The usual budget is kept if it is so near to the best one in time per network."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a fleet uses its device."""

    workers: int = 6
    """Packs in training at the same time at most, each on its own stream; two full ones use a GPU up."""
    budget: float | None = None
    """Widths added up in one pack; None measures on a GPU whether another size than the usual is better."""
    compile: bool | None = None
    """Whether to compile the steps; None does so where it pays."""
    fuse: bool = True
    """Whether packs that allow it train by the package's own kernels on a GPU."""
    smallest_group: int | None = 32
    """Channels a group of a convolution has at least; None leaves convolutions dense."""
    most_chains: int = 512
    """Chains open at the same time."""
    checkpoint_seconds: float = 300.0
    """Seconds between two checkpoints inside a level."""
    threads: int = 2
    """torch threads of every worker for what it does on the host."""


def best_budget(times: Mapping[float, float]) -> float:
    """The usual budget, or the one with the least time where that is clearly less; half of all if none fit."""
    if not times:
        return min(CANDIDATES) / 2
    best = min(times, key=lambda size: times[size])
    return BUDGET if times.get(BUDGET, math.inf) <= WITHIN * times[best] else best

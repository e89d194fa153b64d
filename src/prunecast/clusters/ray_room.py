"""How many workers a Ray cluster has room for; nodes come and go."""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Any

from prunecast.clusters.resources import Resources

LOG = logging.getLogger(__name__)
WINDOW = 2
"""Shares in flight for each worker that there is room for, so that none waits for the driver."""


class Room:
    """The nodes of a cluster as of the last count."""

    def __init__(self, ray: Any, at_once: int | None) -> None:
        """Count the nodes; `at_once` is the most workers that are wanted at the same time."""
        self._ray, self._at_once = ray, at_once
        self._nodes: list[dict[str, float]] = []
        self.count()

    def count(self) -> None:
        """Look at the nodes again."""
        self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def slots(self, need: Resources) -> int:
        """How many workers with these resources fit at the same time."""
        wanted = {"CPU": need.cpus, "GPU": need.gpus, "memory": (need.memory_gb or 0) * 2**30}
        asked = {kind: amount for kind, amount in wanted.items() if amount}
        each = (min(int(own.get(kind, 0) / asked[kind] + 1e-9) for kind in asked) for own in self._nodes)
        return sum(each)

    def has_more(self, need: Resources, flying: Counter[Resources]) -> bool:
        """Whether one more share of a kind may be sent, beside so many in flight of every kind."""
        if self._at_once:
            return flying.total() < self._at_once
        return flying[need] < WINDOW * max(1, self.slots(need))

    def workers(self, kinds: Iterable[Resources]) -> int:
        """How many workers there will be at the same time; what fits on no node is told, for it only waits."""
        slots = {need: self.slots(need) for need in kinds}
        for need in (need for need, number in slots.items() if not number):
            LOG.warning("No node of the Ray cluster has %s; these chains wait until one joins.", _words(need))
        most = max(1, min(slots.values(), default=1))
        return min(most, self._at_once or most)


def _words(need: Resources) -> str:
    memory = f" and {need.memory_gb:g} GB" if need.memory_gb else ""
    return f"{need.cpus:g} CPUs, {need.gpus:g} GPUs{memory}"

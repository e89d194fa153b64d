"""Resources of a worker. They change where a chain runs, not its numbers, so its digest does not contain them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prunecast.errors import require, require_known_keys, require_number

WHOLE = ("minutes", "at_once")
GRACE = 30.0
"""Seconds that a worker on CPUs has to store its chains' checkpoints when it is told to stop."""
GPU_GRACE = 120.0
"""The same on a GPU, where a pack may be compiling: that takes up to 60 seconds and cannot be interrupted."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources of one worker, which runs one chain at a time, or a fleet of chains on a GPU."""

    cpus: float = 1
    """CPU cores of a worker."""
    gpus: float = 0
    """GPUs per worker; 0.25 lets four workers share one."""
    minutes: int | None = None
    """How long a worker may run; another worker continues unfinished chains."""
    memory_gb: float | None = None
    """Memory of a worker in GB; the cluster's default if not given."""
    at_once: int | None = None
    """Maximum number of workers at the same time; by default as many as the cluster has room for."""

    @property
    def grace(self) -> float:
        """Seconds that a worker has to store its chains' checkpoints when it is told to stop."""
        return GPU_GRACE if self.gpus else GRACE


KEYS = tuple(field.name for field in dataclasses.fields(Resources))


def checked(given: Mapping[str, Any], place: str = "") -> Resources:
    """Resources from a plan's table, which messages call `place`, or from the command's options."""

    def named(key: str) -> str:
        return f"{place}: {key}" if place else f"--{key.replace('_', '-')}"

    require_known_keys(place, given, KEYS)
    for key, value in given.items():
        require_number(named(key), value, whole=key in WHOLE)
        enough = value > 0 or (key == "gpus" and value == 0)
        require(enough, f"{named(key)} is {value:g}; give more than 0.")
    resources = Resources(**given)
    shared = resources.gpus <= 1 or resources.gpus == int(resources.gpus)
    require(shared, f"{named('gpus')} is {resources.gpus:g}; give a fraction below 1, or a whole number.")
    return resources

"""The interface of a backend: it starts workers and reports when they end.

Your own backend is a class, or a function without arguments that returns a `Backend`; `--on module:name` names it.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from prunecast.errors import PrunecastError
from prunecast.plugins import load_attribute
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.sweep.resources import Resources, checked
from prunecast.sweep.worker import WorkerSpec

BACKENDS = {
    "processes": "prunecast.sweep.processes:Processes",
    "ray": "prunecast.clusters.ray:RayBackend",
    "slurm": "prunecast.clusters.slurm:SlurmBackend",
}
"""The backends that ship, by name."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A worker that has ended."""

    worker: Hashable
    """What `start` returned for it."""
    died: str = ""
    """How it died, such as "was ended by SIGKILL"; empty if it ended because nothing was left to do."""
    remedy: str = "Is there enough memory for it?"
    """What may help if workers keep dying like this."""
    whole_node: bool = False
    """Whether its node was lost, which is rarely the fault of a chain."""
    cancelled: bool = False
    """Whether a person cancelled it; then it is not replaced."""
    refusal: PrunecastError | None = None
    """Why no chain can be run there; it ends the sweep."""


class Backend(ABC):
    """Starts workers somewhere and reports when they end; a context manager that leaves no worker behind."""

    def needs(self, chain: PlannedChain, resources: Resources) -> Resources:
        """The resources of a chain's worker; workers take only chains with the same resources."""
        return needs(chain, resources)

    @abstractmethod
    def room(self, spec: WorkerSpec) -> int:
        """How many more workers of this kind may be started now."""

    @abstractmethod
    def start(self, spec: WorkerSpec, count: int) -> Sequence[Hashable]:
        """Start up to `count` workers that call `run_worker(spec)`; return a name for each that was started."""

    @abstractmethod
    def ended(self, seconds: float) -> Iterable[Ended]:
        """Wait up to so many seconds for a worker to end; return all that have ended since the last call."""

    @abstractmethod
    def stop(self) -> None:
        """Stop all workers. Workers that get SIGTERM release their chains and store checkpoints."""

    def no_more(self) -> None:  # noqa: B027 - most backends need not do anything
        """No chain is left to take: cancel workers that have not begun; the others end by themselves."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def find_backend(name: str) -> Callable[..., Backend]:
    """The class or function that makes the backend of this name: one that ships, or a user's own as module:name."""
    if name not in BACKENDS and ":" not in name:
        known = ", ".join(BACKENDS)
        raise PrunecastError(
            f"There is no backend {name!r}; give one of {known}, or your own as module:name."
        )
    found = load_attribute(BACKENDS.get(name, name), "backend")
    if not callable(found):
        raise PrunecastError(
            f"backend {name!r} is {type(found).__name__}; give a class or a function that returns a Backend."
        )
    return found


def needs(chain: PlannedChain, resources: Resources) -> Resources:
    """The resources of a chain's worker: those of its plan or else `resources`, k times as many for k devices.

    A chain with several torch threads gets a CPU for each.
    """
    given, devices, threads = chain.resources or resources, chain.devices, chain.spec.threads
    gpus = max(given.gpus, devices) if given.gpus and devices > 1 else given.gpus
    cpus = given.cpus if gpus or threads == 1 else max(given.cpus, threads)
    return dataclasses.replace(given, gpus=gpus, cpus=cpus * devices)


def with_resources(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """The plan with resources for every chain; those of the command line override the plan's table."""
    checked(given)

    def of(chain: PlannedChain) -> PlannedChain:
        resources = dataclasses.replace(chain.resources or Resources(), **given)
        return dataclasses.replace(chain, resources=resources)

    return dataclasses.replace(plan, chains=tuple(map(of, plan.chains)))

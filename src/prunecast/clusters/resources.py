"""The resources of a worker, from the command line, from the plan, and for a chain on several devices."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from prunecast.sweep.events import Job
from prunecast.sweep.grid import PlannedChain
from prunecast.sweep.plan import Plan
from prunecast.sweep.resources import Resources, checked

__all__ = ["Resources", "devices_of", "most_at_once", "needs", "with_resources"]


def with_resources(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """The plan with every chain's resources; what is given on the command line goes before the plan's table."""
    checked(given)

    def of(chain: PlannedChain) -> PlannedChain:
        return dataclasses.replace(
            chain, resources=dataclasses.replace(chain.resources or Resources(), **given)
        )

    return dataclasses.replace(plan, chains=tuple(map(of, plan.chains)))


def needs(chain: PlannedChain, resources: Resources) -> Resources:
    """What the worker of a chain needs: its plan's word, or else `resources`; so many times for k devices.

    A chain that trains with several torch threads on CPUs has a CPU for each.
    """
    own, devices, threads = chain.resources or resources, chain.devices, chain.spec.threads
    gpus = max(own.gpus, devices) if own.gpus and devices > 1 else own.gpus
    cpus = own.cpus if gpus or threads == 1 else max(own.cpus, threads)
    return dataclasses.replace(own, gpus=gpus, cpus=cpus * devices)


def most_at_once(jobs: Iterable[Job], resources: Resources) -> int | None:
    """The most workers at the same time: the smallest number that somebody named."""
    named = {needs(job.chain, resources).at_once for job in jobs}
    return min((number for number in named if number), default=None)


def devices_of(chain: PlannedChain) -> int:
    """On how many devices a chain trains at the same time."""
    return chain.devices

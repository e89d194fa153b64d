"""Many training runs that share one device: networks packed side by side into one dense network."""

from prunecast.fleet.device import run_to_the_end
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.level import evaluate_pack
from prunecast.fleet.members import (
    ChainFailed,
    ChainJob,
    FleetOptions,
    LevelFinished,
    Member,
    PackKind,
    kind_of,
)
from prunecast.fleet.pack import pack
from prunecast.fleet.queue import BUDGET, BUDGET_ON_CPU, PackShape, chain_group, deal
from prunecast.fleet.runner import STEPS_PER_GRAPH
from prunecast.fleet.runner_pool import RunnerPool
from prunecast.fleet.scheduler import fleet_events
from prunecast.fleet.step import renew_copies

__all__ = [
    "BUDGET",
    "BUDGET_ON_CPU",
    "STEPS_PER_GRAPH",
    "ChainFailed",
    "ChainJob",
    "FleetOptions",
    "LevelFinished",
    "Member",
    "PackKind",
    "PackShape",
    "RunnerPool",
    "Unpackable",
    "chain_group",
    "deal",
    "evaluate_pack",
    "fleet_events",
    "kind_of",
    "pack",
    "renew_copies",
    "run_to_the_end",
]

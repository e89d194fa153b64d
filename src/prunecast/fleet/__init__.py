"""Many training runs that share one device: networks packed side by side into one dense network."""

from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Failed, Finished, Job, Options
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.run import fleet_events, run_fleet

__all__ = [
    "Failed",
    "Finished",
    "Job",
    "Options",
    "Pack",
    "Unpackable",
    "fleet_events",
    "pack",
    "run_fleet",
]

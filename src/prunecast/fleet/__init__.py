"""Many trainings that share one device: networks packed side by side into one dense network."""

from prunecast.fleet.events import Failed, Finished
from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Job
from prunecast.fleet.options import Options
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

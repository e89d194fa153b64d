"""Many trainings that share one device: networks packed side by side into one dense network."""

from prunecast.fleet.layout import Unpackable
from prunecast.fleet.members import Job
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.run import Finished, run_fleet
from prunecast.fleet.yard import Options

__all__ = ["Finished", "Job", "Options", "Pack", "Unpackable", "pack", "run_fleet"]

"""Many trainings that share one device: networks packed side by side into one dense network."""

from prunecast.fleet.layout import Unpackable
from prunecast.fleet.pack import Pack, pack

__all__ = ["Pack", "Unpackable", "pack"]

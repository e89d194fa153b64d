"""Networks as modules, built from the architectures of the catalog and initialised from a generator."""

from prunecast.families.building import Weighted, build, find, initialise, prunable
from prunecast.families.network import Network

__all__ = ["Network", "Weighted", "build", "find", "initialise", "prunable"]

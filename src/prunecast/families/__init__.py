"""Networks as modules, built from the architectures and initialised from a generator."""

from prunecast.families.build import build, find, prunable
from prunecast.families.initialise import Weighted, initialise
from prunecast.families.network import Network

__all__ = ["Network", "Weighted", "build", "find", "initialise", "prunable"]

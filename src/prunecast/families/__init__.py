"""Networks as modules, built from the architectures and initialised from a generator."""

from prunecast.families.build import build, find, prunable
from prunecast.families.initialise import initialise
from prunecast.families.network import Network

__all__ = ["Network", "build", "find", "initialise", "prunable"]

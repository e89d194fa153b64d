"""Networks as modules, built from the architectures of the catalog and initialised from a generator."""

from prunecast.families.building import (
    INTO_ATTENTION,
    NotPrunable,
    Weighted,
    build,
    find,
    initialise,
    not_prunable,
    prunable,
)
from prunecast.families.network import Network

__all__ = [
    "INTO_ATTENTION",
    "Network",
    "NotPrunable",
    "Weighted",
    "build",
    "find",
    "initialise",
    "not_prunable",
    "prunable",
]

"""Networks as modules, built from the architectures of the catalog and initialised from a generator."""

from prunecast.families.building import (
    INTO_ATTENTION,
    NotPrunable,
    Weighted,
    arguments,
    build,
    find,
    initialise,
    not_prunable,
    prunable,
)
from prunecast.families.network import Attention, Network, Tokens
from prunecast.families.trial import multiply_adds, place_of, try_network

__all__ = [
    "INTO_ATTENTION",
    "Attention",
    "Network",
    "NotPrunable",
    "Tokens",
    "Weighted",
    "arguments",
    "build",
    "find",
    "initialise",
    "multiply_adds",
    "not_prunable",
    "place_of",
    "prunable",
    "try_network",
]

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
    outline,
    prunable,
)
from prunecast.families.dependencies import find_units
from prunecast.families.network import Attention
from prunecast.families.tracing import (
    CONCATENATIONS,
    DROPOUTS,
    FLATTENING,
    OVER_SPACE,
    POINTWISE,
    POOLING,
    Traced,
    UntraceableError,
    found_once,
    named_axis,
    operation_name,
    signature,
    trace,
)
from prunecast.families.trial import multiply_adds, place_of, try_network
from prunecast.families.units import Flags, Sizes, Units, full_sizes

__all__ = [
    "CONCATENATIONS",
    "DROPOUTS",
    "FLATTENING",
    "INTO_ATTENTION",
    "OVER_SPACE",
    "POINTWISE",
    "POOLING",
    "Attention",
    "Flags",
    "NotPrunable",
    "Sizes",
    "Traced",
    "Units",
    "UntraceableError",
    "Weighted",
    "arguments",
    "build",
    "find",
    "find_units",
    "found_once",
    "full_sizes",
    "initialise",
    "multiply_adds",
    "named_axis",
    "not_prunable",
    "operation_name",
    "outline",
    "place_of",
    "prunable",
    "signature",
    "trace",
    "try_network",
]

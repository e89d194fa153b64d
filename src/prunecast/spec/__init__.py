"""What a study consists of: recipes, methods, chains and their random numbers, and the selection of networks."""

from prunecast.spec.chain import (
    COLUMNS,
    MODULE_CALLS,
    TORCH_GENERATOR,
    ChainSpec,
    as_columns,
    as_dict,
    canonical,
    from_dict,
    level_cap,
    rng,
    seed,
    stream_key,
)
from prunecast.spec.methods import CHANNELS, METHOD_NAMES, METHODS, Method, method, n_of_m
from prunecast.spec.recipes import RECIPE_NAMES, RECIPES, Precision, Recipe, recipe
from prunecast.spec.selection import ErrorRise, Select, Unpruned, left_out, pooled_noise, too_large

__all__ = [
    "CHANNELS",
    "COLUMNS",
    "METHODS",
    "METHOD_NAMES",
    "MODULE_CALLS",
    "RECIPES",
    "RECIPE_NAMES",
    "TORCH_GENERATOR",
    "ChainSpec",
    "ErrorRise",
    "Method",
    "Precision",
    "Recipe",
    "Select",
    "Unpruned",
    "as_columns",
    "as_dict",
    "canonical",
    "from_dict",
    "left_out",
    "level_cap",
    "method",
    "n_of_m",
    "pooled_noise",
    "recipe",
    "rng",
    "seed",
    "stream_key",
    "too_large",
]

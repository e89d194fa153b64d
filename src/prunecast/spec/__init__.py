"""The vocabulary of the engine: recipes, methods, chains, and the random numbers that belong to them."""

from prunecast.spec.chain import ChainSpec, as_dict, canonical, from_dict
from prunecast.spec.method import Method
from prunecast.spec.presets import METHODS, RECIPES, level_cap, method, recipe
from prunecast.spec.recipe import Recipe
from prunecast.spec.selection import TOLERANCE, ErrorRise, Unpruned, pooled_noise, too_large

__all__ = [
    "METHODS",
    "RECIPES",
    "TOLERANCE",
    "ChainSpec",
    "ErrorRise",
    "Method",
    "Recipe",
    "Unpruned",
    "as_dict",
    "canonical",
    "from_dict",
    "level_cap",
    "method",
    "pooled_noise",
    "recipe",
    "too_large",
]

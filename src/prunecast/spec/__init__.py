"""The vocabulary of the engine: recipes, methods, chains, and the random numbers that belong to them."""

from prunecast.spec.chain import ChainSpec, as_dict, canonical, from_dict
from prunecast.spec.method import Method
from prunecast.spec.presets import METHODS, RECIPES, level_cap, method, recipe
from prunecast.spec.recipe import Recipe

__all__ = [
    "METHODS",
    "RECIPES",
    "ChainSpec",
    "Method",
    "Recipe",
    "as_dict",
    "canonical",
    "from_dict",
    "level_cap",
    "method",
    "recipe",
]

"""The recipes of the paper's appendix B, and the methods, by name."""

import dataclasses

from prunecast.catalog import FAMILIES, LEVEL_CAP, find_dataset
from prunecast.spec.check import require_one_of
from prunecast.spec.method import Method
from prunecast.spec.recipe import Recipe

_CIFAR10 = Recipe(
    name="cifar10",
    epochs=160,
    learning_rate=0.1,
    batch_size=128,
    drops=(80, 120),
    rewind=10,
    augmentation="flip-shift",
)
_IMAGENET = Recipe(
    name="imagenet",
    epochs=90,
    learning_rate=0.4,
    batch_size=1024,
    drops=(30, 60, 80),
    rewind=10,
    warmup=5,
    augmentation="resized-crop",
)
_SVHN = dataclasses.replace(_CIFAR10, name="svhn", augmentation="none")

_RECIPES = (
    _CIFAR10,
    dataclasses.replace(_CIFAR10, name="cifar100"),
    _SVHN,
    dataclasses.replace(_CIFAR10, name="cifar10-densenet", epochs=200, drops=(130, 165)),
    dataclasses.replace(_SVHN, name="svhn-densenet", epochs=100, drops=(70, 85)),
    _IMAGENET,
    dataclasses.replace(_IMAGENET, name="tinyimagenet", epochs=200, drops=(100, 150), learning_rate=0.2),
    # An eighth of cifar10, in proportion.
    Recipe(name="digits", epochs=20, learning_rate=0.1, batch_size=32, drops=(10, 15), rewind=1.25),
)
_METHODS = (
    Method(name="imp"),
    Method(name="imp-layerwise", score="layerwise-magnitude"),
    Method(name="imp-rate-rewinding", retraining="rate-rewinding"),
    Method(name="imp-fine-tuning", retraining="fine-tuning"),
    Method(name="random", score="random"),
    Method(name="none", score="none"),
    Method(name="synflow", score="synflow", retraining="from-start"),
)

RECIPES = {recipe.name: recipe for recipe in _RECIPES}
METHODS = {method.name: method for method in _METHODS}


def recipe(name: str) -> Recipe:
    """The recipe of this name."""
    require_one_of("Recipe", name, RECIPES)
    return RECIPES[name]


def method(name: str) -> Method:
    """The method of this name."""
    require_one_of("Method", name, METHODS)
    return METHODS[name]


def level_cap(family: str, dataset: str) -> int:
    """The last level of a chain that neither disconnects nor falls to chance, as in the paper's tables."""
    facts = find_dataset(dataset)
    if facts is not None and facts.level_cap is not None:
        return facts.level_cap
    return FAMILIES[family].level_cap if family in FAMILIES else LEVEL_CAP

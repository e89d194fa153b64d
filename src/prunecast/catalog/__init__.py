"""Facts about datasets and networks: what is known before anything is read or built, without torch."""

from prunecast.catalog.datasets import (
    DIGITS,
    IMAGENET,
    DatasetFacts,
    dataset_names,
    find_dataset,
    own_dataset,
    register_dataset,
    require_size,
)
from prunecast.catalog.families import FAMILIES, LEVEL_CAP, architecture, vit_family
from prunecast.catalog.layers import IMAGE, Architecture, Layer, Shape, scaled
from prunecast.catalog.networks import VIT_PATCH_SIZES

__all__ = [
    "DIGITS",
    "FAMILIES",
    "IMAGE",
    "IMAGENET",
    "LEVEL_CAP",
    "VIT_PATCH_SIZES",
    "Architecture",
    "DatasetFacts",
    "Layer",
    "Shape",
    "architecture",
    "dataset_names",
    "find_dataset",
    "own_dataset",
    "register_dataset",
    "require_size",
    "scaled",
    "vit_family",
]

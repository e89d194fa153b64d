"""Datasets as bytes on the device, and the augmentation of their batches."""

from prunecast.data.augmentation import Draws, augment, draw, merged
from prunecast.data.cache import cache_folder
from prunecast.data.dataset import Dataset, Preprocessing, Source, Split, chance_error, subsample
from prunecast.data.folders import cores
from prunecast.data.loading import (
    DATASETS,
    MOST_OF_DEVICE,
    from_arrays,
    load,
    load_for,
    survey,
    training_examples,
)
from prunecast.data.sources import MemorySource, batches

__all__ = [
    "DATASETS",
    "MOST_OF_DEVICE",
    "Dataset",
    "Draws",
    "MemorySource",
    "Preprocessing",
    "Source",
    "Split",
    "augment",
    "batches",
    "cache_folder",
    "chance_error",
    "cores",
    "draw",
    "from_arrays",
    "load",
    "load_for",
    "merged",
    "subsample",
    "survey",
    "training_examples",
]

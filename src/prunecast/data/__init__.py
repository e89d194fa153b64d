"""Datasets as bytes on the device, and the augmentation of their batches."""

from prunecast.data.augmentation import AUGMENTATIONS, Draws, augment, draw
from prunecast.data.dataset import Dataset, Source, chance_error, subsample
from prunecast.data.load import DATASETS, load

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "Dataset",
    "Draws",
    "Source",
    "augment",
    "chance_error",
    "draw",
    "load",
    "subsample",
]

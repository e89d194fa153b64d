"""Datasets that come as NumPy arrays: one .npz file, a folder of .npy files, or arrays in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prunecast.data.cache import save
from prunecast.data.halves import PARTS, Half, checked_labels
from prunecast.errors import PrunecastError


@dataclass(frozen=True, kw_only=True)
class FoundArrays:
    """An .npz file, or four .npy files in the order of PARTS."""

    files: Sequence[Path]

    def write(self, folder: Path) -> int:
        """Check the arrays and write both halves."""
        try:
            arrays = self._read()
        except (OSError, ValueError, EOFError) as broken:
            names = ", ".join(map(str, self.files))
            raise PrunecastError(f"{names} cannot be read as plain arrays ({broken}).") from broken
        train, test, num_classes = checked(arrays, self.files[0])
        save(folder, "train", train)
        save(folder, "test", test)
        return num_classes

    def _read(self) -> dict[str, Any]:
        if len(self.files) > 1:
            return {part: np.load(file, mmap_mode="r") for part, file in zip(PARTS, self.files, strict=True)}
        with np.load(self.files[0]) as bundle:
            return {part: bundle[part] for part in PARTS if part in bundle}


def find_arrays(place: Path) -> FoundArrays:
    """Find the arrays in an .npz file or in a folder."""
    if place.is_file():
        return FoundArrays(files=(place,))
    files = tuple(place / f"{part}.npy" for part in PARTS)
    for file in files:
        if not file.is_file():
            raise PrunecastError(
                f"{file} is missing; give a folder with {', '.join(PARTS)} as .npy, or an .npz."
            )
    return FoundArrays(files=files)


def checked(arrays: Mapping[str, Any], place: Path | str) -> tuple[Half, Half, int]:
    """Return training half, test half and number of classes (largest label + 1), or say what is wrong."""
    for part in PARTS:
        if part not in arrays:
            raise PrunecastError(f"{place} has no array {part}; it needs {', '.join(PARTS)}.")
    labels = [np.asarray(arrays[f"{half}_labels"]) for half in ("train", "test")]
    num_classes = max((int(part.max()) + 1 for part in labels if part.size), default=1)
    train, test = (_half(arrays, half, num_classes, place) for half in ("train", "test"))
    if train.images.shape[1:] != test.images.shape[1:]:
        shapes = f"{train.images.shape[1:]} and {test.images.shape[1:]}"
        raise PrunecastError(f"{place} has images of two shapes, {shapes}; they must agree.")
    return train, test, num_classes


def _half(arrays: Mapping[str, Any], half: str, num_classes: int, place: Path | str) -> Half:
    images = np.asarray(arrays[f"{half}_images"])
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] > 4:
        found = f"{images.dtype} of shape {images.shape}"
        wanted = "uint8 of shape N, H, W or N, H, W, C with at most 4 channels"
        raise PrunecastError(f"{half}_images in {place} is {found}; it must be {wanted}.")
    labels = checked_labels(arrays[f"{half}_labels"], len(images), num_classes, f"{half}_labels in {place}")
    return Half(images=images, labels=labels)

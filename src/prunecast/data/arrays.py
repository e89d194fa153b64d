"""Datasets that are NumPy arrays: an .npz file, a folder of .npy files, arrays in memory, the embedded digits."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from prunecast.catalog import DIGITS
from prunecast.data.cache import save
from prunecast.data.dataset import PARTS, Found, Half, Halves, checked_labels, described
from prunecast.data.files import HARMLESS_BYTES, MOST_EXPANSION, Tree
from prunecast.errors import PrunecastError

MOST_CLASSES = 1_000_000
"""A larger label is a mistake: the network would have an output for each number below it."""


def find_arrays(tree: Tree, bundle: str | None = None) -> Found:
    """Return the .npz file of that name, or find the four .npy files."""
    files = tuple(f"{part}.npy" for part in PARTS)
    if bundle is not None:
        return Found(
            files=(bundle,), write=lambda folder: _write(_bundled(tree, bundle), tree.base / bundle, folder)
        )
    for file in files:
        if not tree.has(file):
            remedy = f"give a folder with {', '.join(PARTS)} as .npy files, or one .npz file"
            raise PrunecastError(f"{tree.base / file} is missing; {remedy}.")
    return Found(
        files=files, write=lambda folder: _write(_separate(tree, files), tree.base / files[0], folder)
    )


def _write(arrays: Mapping[str, Any], place: Path, folder: Path) -> int:
    """Check the arrays and write both halves."""
    train, test, num_classes = checked(arrays, place)
    save(folder, "train", train)
    save(folder, "test", test)
    return num_classes


def _bundled(tree: Tree, name: str) -> dict[str, Any]:
    place = tree.base / name
    with _refusing_damage(place), tree.open(name) as file, np.load(file) as bundle:
        _check_expansion(bundle.zip, place)
        return {part: bundle[part] for part in PARTS if part in bundle}


def _separate(tree: Tree, files: Sequence[str]) -> dict[str, Any]:
    arrays = {}
    for part, name in zip(PARTS, files, strict=True):
        with _refusing_damage(tree.base / name), tree.open(name) as file:
            arrays[part] = np.load(file)
    return arrays


@contextmanager
def _refusing_damage(place: Path) -> Iterator[None]:
    """Name a file that cannot be read: damaged ones raise nearly anything, and a header can ask for any memory."""
    try:
        yield
    except PrunecastError:
        raise
    except Exception as broken:
        raise PrunecastError(
            f"{place} cannot be read as plain arrays ({broken}); save it with numpy.save or numpy.savez."
        ) from broken


def checked(arrays: Mapping[str, Any], place: Path | str) -> tuple[Half, Half, int]:
    """Return training set, test set and number of classes (largest label + 1), or raise an error."""
    for part in PARTS:
        if part not in arrays:
            raise PrunecastError(f"{place} has no array {part}; it needs {', '.join(PARTS)}.")
    labels = [_array(arrays, f"{half}_labels", place) for half in ("train", "test")]
    num_classes = max((_largest(part) + 1 for part in labels), default=1)
    train, test = (_half(arrays, half, num_classes, place) for half in ("train", "test"))
    if train.images.shape[1:] != test.images.shape[1:]:
        shapes = f"{train.images.shape[1:]} and {test.images.shape[1:]}"
        raise PrunecastError(
            f"{place} has images of two shapes, {shapes}; training and test images must have the same shape."
        )
    return train, test, num_classes


def _array(arrays: Mapping[str, Any], part: str, place: Path | str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(arrays[part])
    except ValueError as ragged:
        raise PrunecastError(
            f"{part} in {place} is not an array ({ragged}); give images of one shape."
        ) from ragged


def _largest(labels: np.ndarray[Any, Any]) -> int:
    """Return the largest label, or 0 if the labels are not whole numbers, which `checked_labels` reports later."""
    whole = labels.size > 0 and labels.dtype.kind in "iu"
    return min(int(labels.max()), MOST_CLASSES - 1) if whole else 0


def _half(arrays: Mapping[str, Any], half: str, num_classes: int, place: Path | str) -> Half:
    images = _array(arrays, f"{half}_images", place)
    if images.ndim == 3:
        images = images[..., None]
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] > 4 or 0 in images.shape[1:]:
        found = f"{images.dtype} of shape {images.shape}"
        wanted = "uint8 of shape N, H, W or N, H, W, C with at most 4 channels"
        raise PrunecastError(f"{half}_images in {place} is {found}; it must be {wanted}.")
    labels = checked_labels(arrays[f"{half}_labels"], len(images), num_classes, f"{half}_labels in {place}")
    return Half(images=images, labels=labels)


def _check_expansion(bundle: Any, place: Path) -> None:
    """Refuse an .npz file that is far larger in memory than on disk."""
    size = sum(member.file_size for member in bundle.infolist())
    if size > max(HARMLESS_BYTES, MOST_EXPANSION * place.stat().st_size):
        problem = f"expands to more than {MOST_EXPANSION} times its size"
        raise PrunecastError(f"{place} {problem}; save it with numpy.savez if you trust it.")


def digits() -> Halves:
    """Return the first 600 images for training and the other 1,197 for testing.

    They are the test half of the UCI "Optical Recognition of Handwritten Digits" in the form scikit-learn
    ships, stored in the order `numpy.random.RandomState(0).permutation(1797)`, so that the split is fixed.
    """
    with files("prunecast.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        images, labels = arrays["images"][..., None], arrays["labels"].astype(np.int64)
    train = Half(images=images[: DIGITS.train_examples], labels=labels[: DIGITS.train_examples])
    test = Half(images=images[DIGITS.train_examples :], labels=labels[DIGITS.train_examples :])
    return described(train, test, num_classes=DIGITS.num_classes)

"""What a dataset is: the arrays that readers of files return, and the sources of batches that training uses."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from prunecast.data.augmentation import Draws
from prunecast.errors import PrunecastError

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Labels = np.ndarray[Any, np.dtype[np.int64]]
PARTS = ("train_images", "train_labels", "test_images", "test_labels")
BLOCK = 1 << 24


class Source(Protocol):
    """The training or the test set of a dataset."""

    @property
    def labels(self) -> Tensor:
        """The classes, int64 on the device."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width as the network sees them."""

    @property
    def streams(self) -> bool:
        """Whether every batch is read from files or host memory, so that reading ahead saves time."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device; draws None means no augmentation."""


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """How an image becomes the input of a network: scaled, cropped at the centre, then (byte − mean) / std."""

    size: tuple[int, int]
    """Height and width."""
    shorter_side: int | None
    """The shorter side is scaled (bilinear) to this before the crop; None if the images have the size already."""
    mean: tuple[float, ...]
    """Of each channel, in bytes."""
    std: tuple[float, ...]
    """Of each channel, in bytes."""
    value_range: tuple[int, int] = (0, 255)
    """Of the values from which the mean is subtracted."""


@dataclass(frozen=True, kw_only=True)
class Split:
    """How images without a test set are split: a share of every class is used for testing, chosen by a seed."""

    test_share: float = 0.2
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A training set, a test set and their classes."""

    name: str
    train: Source
    test: Source
    num_classes: int
    chance_error: float
    """1 − the largest class's share of the test set: the error of the best constant answer."""
    digest: str
    """A digest of the images and labels, so that a record names what it was trained on."""
    preprocessing: Preprocessing | None = None
    """What the sources do to images without augmentation; None if a dataset of your own does not define it."""
    class_names: tuple[str, ...] = ()
    """In the order of the labels; empty where they have no names."""
    split: Split | None = None
    """How prunecast split the images; None if they came with a test set."""


def chance_error(labels: Tensor) -> float:
    """Return 1 − the largest class's share of the labels."""
    return 1 - int(torch.bincount(labels).max()) / len(labels)


def subsample(
    total: int, num_examples: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return num_examples of `total` indices, drawn without regard to class, in ascending order.

    They are a prefix of one permutation, so a smaller subsample from an equal generator is part of a larger one.
    """
    if not 0 < num_examples <= total:
        raise PrunecastError(f"num_examples must be between 1 and {total}, not {num_examples}.")
    chosen: np.ndarray[Any, np.dtype[np.int64]] = rng.permutation(total)[:num_examples]
    return np.sort(chosen)


@dataclass(frozen=True, kw_only=True)
class Half:
    """Images as bytes N, H, W, C and one label per image."""

    images: Bytes
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class Halves:
    """Training and test set with images of one shape, their statistics and digest."""

    train: Half
    test: Half
    num_classes: int
    mean: list[float]
    """Mean of each channel over the training set, in bytes."""
    std: list[float]
    """Standard deviation of each channel over the training set, in bytes."""
    digest: str
    """Digest of all images and labels."""
    class_names: tuple[str, ...] = ()
    """The names of class folders; empty where the files have none."""
    split: Split | None = None
    """How prunecast split the images; None if they came with a test set."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A dataset that was found among files and not read yet."""

    files: Sequence[str]
    """The names of all files its content depends on, in a fixed order."""
    write: Callable[[Path], int]
    """Writes the four parts of a cache entry into a folder and returns the number of classes."""


def described(train: Half, test: Half, num_classes: int) -> Halves:
    """Return both sets with their statistics and digest."""
    mean, std = byte_statistics(train.images)
    digest = content_digest(train, test)
    return Halves(train=train, test=test, num_classes=num_classes, mean=mean, std=std, digest=digest)


def byte_statistics(images: Bytes) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel in bytes, from exact integer sums.

    A channel that never varies gets a standard deviation of 1.
    """
    counts = np.zeros((images.shape[-1], 256), np.int64)
    for block in _blocks(images):
        for channel, count in enumerate(counts):
            count += np.bincount(block[..., channel].reshape(-1), minlength=256)
    values = np.arange(256)
    pixels = images.size // images.shape[-1]
    mean = counts @ values / pixels
    std = np.sqrt(np.maximum(counts @ values**2 / pixels - mean**2, 0))
    return mean.tolist(), np.where(std > 0, std, 1).tolist()


def content_digest(train: Half, test: Half) -> str:
    """Return the digest of all images and labels, their types and shapes."""
    digest = hashlib.sha256()
    for array in (train.images, train.labels, test.images, test.labels):
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        for block in _blocks(array):
            digest.update(np.ascontiguousarray(block).data)
    return digest.hexdigest()


def _blocks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield consecutive rows of about 16 MB, so that a memory-mapped array never fills the memory."""
    rows = max(1, BLOCK // max(1, array[:1].nbytes))
    return (array[start : start + rows] for start in range(0, len(array), rows))


def checked_labels(labels: Any, count: int, num_classes: int, place: Path | str) -> Labels:
    """Return labels as int64; labels that do not fit the images or classes raise an error that names the place."""
    values = np.asarray(labels)
    if values.ndim != 1 or len(values) != count:
        raise PrunecastError(
            f"{place} has {values.size} labels for {count} images; give one label per image."
        )
    if count == 0:
        raise PrunecastError(f"{place} has no images.")
    if values.dtype.kind not in "iu":
        raise PrunecastError(f"{place} has labels of type {values.dtype}; they must be whole numbers.")
    if values.min() < 0 or values.max() >= num_classes:
        wrong = int(values.min() if values.min() < 0 else values.max())
        raise PrunecastError(f"{place} has the label {wrong}; labels must be 0 to {num_classes - 1}.")
    return values.astype(np.int64)

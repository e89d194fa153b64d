"""What a dataset is to the rest of the engine: two sources of batches, and how good guessing is."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from prunecast.data.augmentation import Draws
from prunecast.errors import PrunecastError


class Source(Protocol):
    """The training or the test half of a dataset."""

    @property
    def labels(self) -> Tensor:
        """The classes, int64 on the device."""

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width as the network sees them."""

    @property
    def streams(self) -> bool:
        """Whether batches are read from files anew each time, so that fetching them ahead pays."""

    def __len__(self) -> int: ...

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device; draws None means no augmentation."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A training half, a test half and their classes."""

    name: str
    train: Source
    test: Source
    num_classes: int
    chance_error: float
    """1 − the largest class's share of the test half: the error of the best constant answer."""
    digest: str
    """A digest of the images and labels, so that a record can tell what it was trained on."""


def chance_error(labels: Tensor) -> float:
    """Return 1 − the largest class's share of the labels."""
    return 1 - int(torch.bincount(labels).max()) / len(labels)


def subsample(
    total: int, num_examples: int, rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return num_examples of `total` indices, drawn without regard to class or repetition, ascending.

    They are a prefix of one permutation, so of one generator a smaller subsample is part of a larger one.
    """
    if not 0 < num_examples <= total:
        raise PrunecastError(f"num_examples must be between 1 and the {total} there are, not {num_examples}.")
    chosen: np.ndarray[Any, np.dtype[np.int64]] = rng.permutation(total)[:num_examples]
    return np.sort(chosen)

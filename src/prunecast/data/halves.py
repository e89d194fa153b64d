"""The two halves of a dataset as arrays on the host: what every reader of files returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Labels = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, kw_only=True)
class Half:
    """Images as bytes N, H, W, C and one label each."""

    images: Bytes
    labels: Labels


@dataclass(frozen=True, kw_only=True)
class Halves:
    """Training and test half with images of one shape."""

    train: Half
    test: Half
    num_classes: int
    digest: str

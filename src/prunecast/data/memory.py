"""A source whose images lie in memory as bytes and are augmented on the device."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from prunecast.data.augmentation import Draws, augment


class MemorySource:
    """Bytes N, H, W, C, on the device where they fit, else on the host; batches are made on the device.

    With bytes, indices and draws on a GPU, a batch is a handful of kernels that never wait for the
    host, so it can be part of a CUDA graph.
    """

    streams = False

    def __init__(self, images: Tensor, labels: Tensor, *, mean: Tensor, std: Tensor) -> None:
        """Keep the images where they are; batches are made where labels, mean and std (in bytes) are."""
        self._images, self.labels = images, labels
        self._mean, self._scale = mean, 1 / std
        _, height, width, channels = images.shape
        self.image_shape = (channels, height, width)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device: (byte − mean) / std."""
        device = self.labels.device
        images = self._images[indices.to(self._images.device)].to(device)
        if draws is not None:
            images = augment(images, draws.to(device))
        return images.sub(self._mean).mul_(self._scale).permute(0, 3, 1, 2).contiguous()


def byte_statistics(images: np.ndarray[Any, Any]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel in bytes, from exact integer sums.

    A channel that never varies gets a standard deviation of 1.
    """
    total, squares = 0, 0
    for part in np.array_split(images, max(1, images.nbytes >> 26)):
        wide = part.reshape(-1, images.shape[-1]).astype(np.int64)
        total, squares = total + wide.sum(0), squares + (wide * wide).sum(0)
    pixels = images.size // images.shape[-1]
    mean = total / pixels
    std = np.sqrt(np.maximum(squares / pixels - mean**2, 0))
    return mean.tolist(), np.where(std > 0, std, 1).tolist()


def normalisation(statistics: list[float], device: torch.device) -> Tensor:
    """Return per-channel statistics as float32 on the device."""
    return torch.tensor(statistics, dtype=torch.float32, device=device)

"""A source whose images lie in memory as bytes and are augmented on the device."""

import torch
from torch import Tensor

from prunecast.data.augmentation import Draws, augment, augmented


class MemorySource:
    """Bytes N, H, W, C, on the device where they fit, else on the host; batches are made on the device.

    With bytes, indices and draws on a GPU, a batch is a handful of kernels that never wait for the
    host, so it can be part of a CUDA graph.
    """

    def __init__(self, images: Tensor, labels: Tensor, *, mean: Tensor, std: Tensor) -> None:
        """Keep the images where they are; batches are made where labels, mean and std (in bytes) are."""
        self.images, self.labels = images, labels
        self.mean, self.scale = mean, 1 / std
        self.streams = images.device != labels.device  # no graph can hold a copy from the host
        _, height, width, channels = images.shape
        self.image_shape = (channels, height, width)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return (byte − mean) / std as float32 N, C, H, W on the device, channels last in memory.

        Channels last is how the bytes lie, and convolutions are faster on it on CPU and GPU alike.
        """
        batch = self._taken(indices, draws).sub(self.mean).mul_(self.scale).permute(0, 3, 1, 2)
        return batch.contiguous(memory_format=torch.channels_last)

    def _taken(self, indices: Tensor, draws: Draws | None) -> Tensor:
        device = self.labels.device
        if draws is not None and not self.streams:
            return augmented(self.images, indices, draws.to(device))
        images = self.images[indices.to(self.images.device)].to(device)
        return images if draws is None else augment(images, draws.to(device))

"""Where batches come from: bytes on the device, bytes on the host, or image files decoded for every batch."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from prunecast.catalog import IMAGENET
from prunecast.data.augmentation import Draws, augment, augmented, box
from prunecast.data.dataset import Bytes, Source
from prunecast.data.files import Tree
from prunecast.data.folders import centred, decoding_threads, opened

TEST_SCALE = 256 / 224
"""Test images are scaled so that the shorter side is this many times the crop, then cropped at the centre."""
AHEAD = 2
"""Batches read in advance, so that no decoding thread waits for the end of a batch."""

Plan = Iterable[tuple[Tensor, Draws | None]]
"""The indices and the augmentation of one batch after another."""
Crop = Sequence[float]


@runtime_checkable
class Prefetchable(Protocol):
    """A source whose batches are read on the host, by any thread, and then finished on the device."""

    def read(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as bytes N, H, W, C on the host."""

    def place(self, pixels: Tensor, draws: Draws | None) -> Tensor:
        """Turn these bytes into a batch on the device; only the thread that trains may call this."""


def batches(source: Source, plan: Plan) -> Iterator[Tensor]:
    """Yield the batch of each (indices, draws), read in advance where the source allows it.

    A thread reads on the host; the device is used by the caller's thread alone.
    """
    if not isinstance(source, Prefetchable):
        yield from (source.batch(indices, draws) for indices, draws in plan)
        return
    pending: deque[tuple[Future[Tensor], Draws | None]] = deque()
    with ThreadPoolExecutor(1) as reader:
        for indices, draws in plan:
            pending.append((reader.submit(source.read, indices, draws), draws))
            if len(pending) > AHEAD:
                pixels, drawn = pending.popleft()
                yield source.place(pixels.result(), drawn)
        for pixels, drawn in pending:
            yield source.place(pixels.result(), drawn)


class MemorySource:
    """Bytes N, H, W, C on the device.

    With indices and draws on the same GPU, a batch is a handful of kernels that never wait for the host, so it
    can be part of a CUDA graph.
    """

    streams = False

    def __init__(self, images: Tensor, labels: Tensor, *, mean: Tensor, std: Tensor) -> None:
        """Keep the tensors where they are; mean and std of each channel are in bytes."""
        self.images, self.labels = images, labels
        self.mean, self.scale = mean, 1 / std
        _, height, width, channels = images.shape
        self.image_shape = (channels, height, width)

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return (byte − mean) / std as float32 N, C, H, W on the device, channels last in memory.

        Channels last is how the bytes are stored, and convolutions are faster with it on CPU and GPU.
        """
        device = self.labels.device
        indices = indices.to(device)
        taken = self.images[indices] if draws is None else augmented(self.images, indices, draws.to(device))
        return self.normalised(taken)

    def normalised(self, pixels: Tensor) -> Tensor:
        """Return (byte − mean) / std of bytes N, H, W, C as float32 N, C, H, W."""
        batch = pixels.sub(self.mean).mul_(self.scale).permute(0, 3, 1, 2)
        return batch.contiguous(memory_format=torch.channels_last)


class HostSource(MemorySource):
    """Bytes that stay on the host because the device has no memory for them; batches are copied over."""

    streams = True

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return (byte − mean) / std as float32 N, C, H, W on the device, channels last in memory."""
        return self.place(self.read(indices, draws), draws)

    def read(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return the bytes of these images, not augmented yet."""
        return self.images[indices.cpu()]

    def place(self, pixels: Tensor, draws: Draws | None) -> Tensor:
        """Copy bytes to the device, augment and normalise them there."""
        device = self.labels.device
        images = pixels.to(device)
        return self.normalised(images if draws is None else augment(images, draws.to(device)))


class StreamSource:
    """Image files that a pool of threads decodes, crops and scales; normalised as ImageNet is."""

    streams = True

    def __init__(
        self,
        tree: Tree,
        names: Sequence[str],
        labels: Tensor,
        image_size: int,
        threads: int | None = None,
    ) -> None:
        self._tree, self._names, self.labels = tree, names, labels
        self.image_shape = (3, image_size, image_size)
        # A whole row at once: a broadcast over three channels is several times slower.
        self._mean = torch.tensor(IMAGENET.mean * image_size, device=labels.device) * 255
        self._scale = 1 / (torch.tensor(IMAGENET.std * image_size, device=labels.device) * 255)
        self._pool = ThreadPoolExecutor(threads or decoding_threads())

    def __len__(self) -> int:
        return len(self._names)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device, channels last in memory."""
        return self.place(self.read(indices, draws), draws)

    def read(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Decode images to bytes N, H, W, C on the host, with crops and flips; each thread fills its own rows."""
        chosen, tree, size = indices.tolist(), self._tree, self.image_shape[1]
        pixels = np.empty((len(chosen), size, size, 3), np.uint8)
        crops: Iterable[Crop | None] = repeat(None)
        flips: Iterable[bool] = repeat(False)
        if draws is not None and draws.crop is not None:
            crops, flips = draws.crop.tolist(), draws.flip.tolist()

        def fill(row: int, index: int, crop: Crop | None, flip: bool) -> None:
            name = self._names[index]
            pixels[row] = central(tree, name, size) if crop is None else cropped(tree, name, crop, flip, size)

        for _ in self._pool.map(fill, range(len(chosen)), chosen, crops, flips):
            pass
        return torch.from_numpy(pixels)

    def place(self, pixels: Tensor, draws: Draws | None) -> Tensor:
        """Copy bytes to the device, shift and flip them there if drawn, and normalise them."""
        images = pixels.to(self.labels.device)
        if draws is not None and draws.shift is not None:
            images = augment(images, draws.to(self.labels.device))
        rows = images.flatten(2).float().sub_(self._mean).mul_(self._scale)
        return rows.view(images.shape).permute(0, 3, 1, 2)


def cropped(tree: Tree, name: str, crop: Crop, flip: bool, size: int) -> Bytes:
    """Return one image's random box scaled to size × size, mirrored if flip says so."""
    from PIL.Image import Resampling, Transpose

    def spare(width: int, height: int) -> float:
        left, top, right, bottom = box(crop, height, width)
        return min(right - left, bottom - top) / size

    image = opened(tree, name, spare)
    image = image.resize((size, size), Resampling.BILINEAR, box(crop, image.height, image.width))
    return np.asarray(image.transpose(Transpose.FLIP_LEFT_RIGHT) if flip else image)


def scaled_side(size: int) -> int:
    """Return the shorter side of a test image before its centre is taken."""
    return round(size * TEST_SCALE)


def central(tree: Tree, name: str, size: int) -> Bytes:
    """Return the central size × size pixels of one image, its shorter side scaled as for tests."""
    scaled = scaled_side(size)
    return centred(opened(tree, name, lambda width, height: min(width, height) / scaled), scaled, size)

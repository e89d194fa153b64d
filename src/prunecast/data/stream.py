"""A source that decodes its files anew for every batch, for sets too large to keep decoded."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from prunecast.catalog import IMAGENET
from prunecast.data.augmentation import Draws, augment, box
from prunecast.data.dataset import Source
from prunecast.data.halves import Bytes
from prunecast.data.images import centred, opened, workers
from prunecast.data.trees import Tree

TEST_SCALE = 256 / 224
"""Without a crop the shorter side is scaled to this many times the size, and the centre taken."""
AHEAD = 2
"""Batches that are read while one is learnt, so that no thread waits for the end of a batch."""

Plan = Iterable[tuple[Tensor, Draws | None]]
Crop = Sequence[float]


class StreamSource:
    """Image files on disk, decoded, cropped and scaled by a pool of threads and normalised as ImageNet is."""

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
        self._pool = ThreadPoolExecutor(threads or workers())

    def __len__(self) -> int:
        return len(self._names)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device, channels last in memory."""
        return self.placed(self.read(indices, draws), draws)

    def read(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as bytes N, H, W, C on the host; every thread writes into its rows of the batch."""
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

    def placed(self, pixels: Tensor, draws: Draws | None) -> Tensor:
        """Return bytes of the host as a batch on the device; what the batch's size needs is done there."""
        images = pixels.to(self.labels.device)
        if draws is not None and draws.shift is not None:
            images = augment(images, draws.to(self.labels.device))
        rows = images.flatten(2).float().sub_(self._mean).mul_(self._scale)
        return rows.view(images.shape).permute(0, 3, 1, 2)

    def ahead(self, plan: Plan) -> Iterator[Tensor]:
        """Give the batch of each (indices, draws); the bytes of the next ones are read meanwhile."""
        pending: deque[tuple[Future[Tensor], Draws | None]] = deque()
        with ThreadPoolExecutor(1) as reader:
            for indices, draws in plan:
                pending.append((reader.submit(self.read, indices, draws), draws))
                if len(pending) > AHEAD:
                    yield self._next(pending)
            while pending:
                yield self._next(pending)

    def _next(self, pending: deque[tuple[Future[Tensor], Draws | None]]) -> Tensor:
        pixels, draws = pending.popleft()
        return self.placed(pixels.result(), draws)


def cropped(tree: Tree, name: str, crop: Crop, flip: bool, size: int) -> Bytes:
    """Return one image's random box scaled to size × size, mirrored if flip says so."""
    from PIL.Image import Resampling, Transpose

    def spare(width: int, height: int) -> float:
        left, top, right, bottom = box(crop, height, width)
        return min(right - left, bottom - top) / size

    image = opened(tree, name, spare)
    image = image.resize((size, size), Resampling.BILINEAR, box(crop, image.height, image.width))
    return np.asarray(image.transpose(Transpose.FLIP_LEFT_RIGHT) if flip else image)


def central(tree: Tree, name: str, size: int) -> Bytes:
    """Return the central size × size pixels of one image, its shorter side scaled as for tests."""
    scaled = round(size * TEST_SCALE)
    return centred(opened(tree, name, lambda width, height: min(width, height) / scaled), scaled, size)


def batches(source: Source, plan: Plan) -> Iterator[Tensor]:
    """Give the batch of each (indices, draws) in turn; of a source that streams, ahead of its use."""
    if isinstance(source, StreamSource):
        yield from source.ahead(plan)
    elif source.streams:
        yield from _one_ahead(source, plan)
    else:
        yield from (source.batch(indices, draws) for indices, draws in plan)


def _one_ahead(source: Source, plan: Plan) -> Iterator[Tensor]:
    # Streams belong to threads: without the caller's, a batch could be used before it is made.
    stream = torch.cuda.current_stream(source.labels.device) if source.labels.is_cuda else None

    def made(indices: Tensor, draws: Draws | None) -> Tensor:
        with torch.cuda.stream(stream):
            return source.batch(indices, draws)

    with ThreadPoolExecutor(1) as maker:
        pending: Future[Tensor] | None = None
        for indices, draws in plan:
            following = maker.submit(made, indices, draws)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()

"""A source that decodes its files anew for every batch, for sets too large to keep decoded."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from torch import Tensor

from prunecast.data.augmentation import Draws, augment, boxes
from prunecast.data.dataset import Source
from prunecast.data.halves import Bytes
from prunecast.data.images import centred, opened, workers
from prunecast.data.trees import Tree

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
TEST_SCALE = 256 / 224
"""Without a crop the shorter side is scaled to this many times the size, and the centre taken."""


class StreamSource:
    """Image files on disk, decoded, cropped and scaled by a pool of threads and normalised as ImageNet is."""

    streams = True

    def __init__(self, tree: Tree, names: Sequence[str], labels: Tensor, image_size: int) -> None:
        self._tree, self._names, self.labels = tree, names, labels
        self.image_shape = (3, image_size, image_size)
        self._mean = torch.tensor(IMAGENET_MEAN, device=labels.device) * 255
        self._scale = 1 / (torch.tensor(IMAGENET_STD, device=labels.device) * 255)
        self._pool = ThreadPoolExecutor(workers())

    def __len__(self) -> int:
        return len(self._names)

    def batch(self, indices: Tensor, draws: Draws | None) -> Tensor:
        """Return images as normalised float32 N, C, H, W on the device, channels last in memory."""
        size = self.image_shape[1]
        names = [self._names[index] for index in indices.tolist()]
        if draws is not None and draws.crop is not None:
            crop = partial(cropped, self._tree, size=size)
            made = self._pool.map(crop, names, draws.crop.cpu(), draws.flip.tolist())
        else:
            made = self._pool.map(self._centre, names)
        images = torch.from_numpy(np.stack(list(made))).to(self.labels.device)
        if draws is not None and draws.shift is not None:
            images = augment(images, draws.to(self.labels.device))
        return images.sub(self._mean).mul_(self._scale).permute(0, 3, 1, 2)

    def _centre(self, name: str) -> Bytes:
        size = self.image_shape[1]
        return centred(opened(self._tree, name), round(size * TEST_SCALE), size)


def cropped(tree: Tree, name: str, crop: Tensor, flip: bool, size: int) -> Bytes:
    """Return one image's random box scaled to size × size, mirrored if flip says so."""
    from PIL.Image import Resampling

    image = opened(tree, name)
    top, left, tall, wide = boxes(crop, image.height, image.width).tolist()
    right, bottom = min(left + wide, image.width), min(top + tall, image.height)
    pixels = np.asarray(image.resize((size, size), Resampling.BILINEAR, (left, top, right, bottom)))
    return pixels[:, ::-1] if flip else pixels


def batches(source: Source, plan: Iterable[tuple[Tensor, Draws | None]]) -> Iterator[Tensor]:
    """Give the batch of each (indices, draws) in turn; of a source that streams, one batch ahead."""
    if not source.streams:
        yield from (source.batch(indices, draws) for indices, draws in plan)
        return
    with ThreadPoolExecutor(1) as ahead:
        pending = None
        for indices, draws in plan:
            following = ahead.submit(source.batch, indices, draws)
            if pending is not None:
                yield pending.result()
            pending = following
        if pending is not None:
            yield pending.result()

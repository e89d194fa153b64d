"""Augmentation in two steps: draws made on the host in numpy, and pure batched functions that apply them.

All devices see the same augmentation, because nothing random happens on the device.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from prunecast.errors import PrunecastError

AUGMENTATIONS = ("none", "flip-shift", "resized-crop")
MOST_SHIFT = 4
AREA = (0.1, 1.0)
ASPECT = (0.8, 1.25)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """The random numbers of some images, one row per image, with either shift or crop."""

    flip: Tensor
    """Whether an image is mirrored left to right: bool."""
    shift: Tensor | None = None
    """Rows and columns by which the window moves, −4 to 4: int64, last dimension 2."""
    crop: Tensor | None = None
    """Area as a share of the image, width over height, and the position of the box, 0 to 1 down and across."""

    def map(self, function: Callable[[Tensor], Tensor]) -> "Draws":
        """Return the draws with a function applied to every tensor; torch's compiler must understand it."""
        shift = None if self.shift is None else function(self.shift)
        crop = None if self.crop is None else function(self.crop)
        return Draws(flip=function(self.flip), shift=shift, crop=crop)

    def tensors(self) -> list[Tensor]:
        """Return all tensors, in the same order for all draws of one kind."""
        return [tensor for tensor in (self.flip, self.shift, self.crop) if tensor is not None]

    def to(self, device: torch.device | str) -> "Draws":
        """Return the draws on a device."""
        return self.map(lambda values: values.to(device))

    def __getitem__(self, rows: Any) -> "Draws":
        return self.map(lambda values: values[rows])

    def __len__(self) -> int:
        return len(self.flip)


def merged(draws: Sequence[Draws], function: Callable[[list[Tensor]], Tensor]) -> Draws:
    """Combine draws of one kind: `function` combines the versions of each tensor, for example `torch.stack`."""
    names = [name for name, tensor in vars(draws[0]).items() if tensor is not None]
    versions = zip(*(drawn.tensors() for drawn in draws), strict=True)
    return Draws(**{name: function(list(parts)) for name, parts in zip(names, versions, strict=True)})


def draw(
    augmentation: str, count: int, image_shape: tuple[int, ...], rng: np.random.Generator
) -> Draws | None:
    """Return draws for `count` images, or None for "none".

    flip-shift mirrors half of the images and moves them by −4 to 4 pixels each way (never further than
    the image is wide). resized-crop mirrors half, takes areas uniform in 0.1 to 1 and aspects log-uniform
    in 0.8 to 1.25, drawn again where the box would not fit a square image.
    """
    if augmentation == "none":
        return None
    if augmentation not in AUGMENTATIONS:
        raise PrunecastError(
            f"unknown augmentation {augmentation!r}; choose one of {', '.join(AUGMENTATIONS)}."
        )
    flip = torch.from_numpy(rng.random(count) < 0.5)
    if augmentation == "flip-shift":
        most = np.minimum(MOST_SHIFT, np.array(image_shape[1:]) - 1)
        return Draws(flip=flip, shift=torch.from_numpy(rng.integers(-most, most + 1, (count, 2))))
    crop = np.column_stack((_areas_and_aspects(count, rng), rng.random((count, 2))))
    return Draws(flip=flip, crop=torch.from_numpy(crop.astype(np.float32)))


def _areas_and_aspects(count: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Draw (area, aspect) until area · max(aspect, 1 / aspect) ≤ 1 everywhere; nine in ten fit at once."""
    drawn = np.full((count, 2), np.inf)
    while (unfit := drawn[:, 0] * np.maximum(drawn[:, 1], 1 / drawn[:, 1]) > 1).any():
        missing = int(unfit.sum())
        aspect = np.exp(rng.uniform(log(ASPECT[0]), log(ASPECT[1]), missing))
        drawn[unfit] = np.column_stack((rng.uniform(*AREA, missing), aspect))
    return drawn


def augment(images: Tensor, draws: Draws) -> Tensor:
    """Return images N, H, W, C augmented; no operation waits for the device."""
    return augmented(images, torch.arange(len(images), device=images.device), draws)


def augmented(images: Tensor, indices: Tensor, draws: Draws) -> Tensor:
    """Return images[indices] augmented."""
    if draws.shift is not None:
        return flip_shift(images, indices, draws.flip, draws.shift)
    assert draws.crop is not None
    return resized_crop(images[indices], draws.flip, draws.crop)


def flip_shift(images: Tensor, indices: Tensor, flip: Tensor, shift: Tensor) -> Tensor:
    """Return result[i, r, c] = images[indices[i], r + down, c + across], black outside, mirrored where flip is.

    Every pixel is looked up once by its position among all pixels: one index is faster than three, and a
    compiler fuses it into a single kernel.
    """
    count, height, width, channels = images.shape
    number = torch.int32 if count * height * width < 2**31 else torch.int64
    down, across = shift.to(number).unbind(-1)
    rows = torch.arange(height, device=images.device, dtype=number) + down[:, None]
    columns = torch.arange(width, device=images.device, dtype=number)
    columns = torch.where(flip[:, None], width - 1 - columns, columns) + across[:, None]
    inside = _within(rows, height)[:, :, None] & _within(columns, width)[:, None, :]
    lines = indices.to(number)[:, None] * height + rows.clamp(0, height - 1)
    pixels = lines[:, :, None] * width + columns.clamp(0, width - 1)[:, None, :]
    taken = images.view(-1, channels).index_select(0, pixels.view(-1)).view(*pixels.shape, channels)
    return taken * inside[..., None]


def _within(places: Tensor, size: int) -> Tensor:
    return (places >= 0) & (places < size)


def box(crop: Iterable[float], height: int, width: int) -> tuple[float, float, float, float]:
    """Return left, top, right, bottom of one image's box: `boxes` in plain numbers, a hundred times faster."""
    area, aspect, down, across = map(float, crop)
    tall = min(sqrt(area * (height * width) / aspect), height)
    wide = min(sqrt(area * (height * width) * aspect), width)
    top, left = (height - tall) * down, (width - wide) * across
    return left, top, min(left + wide, width), min(top + tall, height)


def boxes(crop: Tensor, height: int, width: int) -> Tensor:
    """Return top, left, height, width in pixels of the boxes in one size of image.

    height = √(area·H·W / aspect), width = √(area·H·W · aspect), with sides cut to those of the image.
    """
    area, aspect, down, across = crop.unbind(-1)
    tall = (area * (height * width) / aspect).sqrt().clamp(max=height)
    wide = (area * (height * width) * aspect).sqrt().clamp(max=width)
    return torch.stack(((height - tall) * down, (width - wide) * across, tall, wide), dim=-1)


def resized_crop(images: Tensor, flip: Tensor, crop: Tensor) -> Tensor:
    """Return the boxes of the images scaled back to the images' size by bilinear interpolation, as floats."""
    _, height, width, _ = images.shape
    top, left, tall, wide = boxes(crop, height, width)[:, :, None].unbind(1)
    down = (torch.arange(height, device=images.device) + 0.5) / height
    across = (torch.arange(width, device=images.device) + 0.5) / width
    y = (top + tall * down) * (2 / height) - 1
    x = (left + wide * torch.where(flip[:, None], 1 - across, across)) * (2 / width) - 1
    size = (len(images), height, width)
    grid = torch.stack((x[:, None, :].expand(size), y[:, :, None].expand(size)), dim=-1)
    floats = images.permute(0, 3, 1, 2).float()
    sampled = functional.grid_sample(floats, grid, padding_mode="border", align_corners=False)
    return sampled.permute(0, 2, 3, 1)

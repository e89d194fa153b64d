import math

import numpy as np
import pytest
import torch

from prunecast.data import Draws, augment, draw
from prunecast.data.augmentation import boxes
from prunecast.errors import PrunecastError


def images_and(augmentation, count=40, height=12, width=10, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.integers(0, 256, (count, height, width, channels), dtype=np.uint8))
    return images, draw(augmentation, count, (channels, height, width), rng)


def slow_flip_shift(image, flip, down, across):
    height, width, _ = image.shape
    result = torch.zeros_like(image)
    for r in range(height):
        for c in range(width):
            y, x = r + down, (width - 1 - c if flip else c) + across
            if 0 <= y < height and 0 <= x < width:
                result[r, c] = image[y, x]
    return result


def slow_resized_crop(image, flip, area, aspect, down, across):
    height, width, _ = image.shape
    tall = min(height, math.sqrt(area * height * width / aspect))
    wide = min(width, math.sqrt(area * height * width * aspect))
    top, left = (height - tall) * down, (width - wide) * across
    result = torch.zeros(image.shape)
    for r in range(height):
        for c in range(width):
            y = top + (r + 0.5) / height * tall - 0.5
            share = (width - 1 - c if flip else c) + 0.5
            x = left + share / width * wide - 0.5
            result[r, c] = bilinear(image.float(), y, x)
    return result


def bilinear(image, y, x):
    height, width, _ = image.shape
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    y0, x0 = math.floor(y), math.floor(x)
    y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
    upper = image[y0, x0] * (1 - (x - x0)) + image[y0, x1] * (x - x0)
    lower = image[y1, x0] * (1 - (x - x0)) + image[y1, x1] * (x - x0)
    return upper * (1 - (y - y0)) + lower * (y - y0)


@pytest.mark.parametrize(("height", "width", "channels"), [(12, 10, 3), (8, 8, 1), (3, 9, 2)])
def test_flip_shift_equals_the_slow_reference(height, width, channels):
    images, draws = images_and("flip-shift", height=height, width=width, channels=channels)
    fast = augment(images, draws)
    for row in range(len(images)):
        down, across = draws.shift[row].tolist()
        assert torch.equal(fast[row], slow_flip_shift(images[row], draws.flip[row], down, across))
    assert fast.dtype == torch.uint8


@pytest.mark.parametrize(("height", "width", "channels"), [(12, 10, 3), (8, 8, 1)])
def test_resized_crop_equals_the_slow_reference(height, width, channels):
    images, draws = images_and("resized-crop", height=height, width=width, channels=channels)
    fast = augment(images, draws)
    for row in range(len(images)):
        expected = slow_resized_crop(images[row], draws.flip[row], *draws.crop[row].tolist())
        torch.testing.assert_close(fast[row], expected, atol=2e-2, rtol=0)


def test_flip_shift_draws_cover_their_range_evenly():
    draws = draw("flip-shift", 9000, (3, 32, 32), np.random.default_rng(1))
    counts = torch.stack([torch.bincount(draws.shift[:, axis] + 4, minlength=9) for axis in (0, 1)])
    assert counts.shape == (2, 9)
    assert (counts - 1000).abs().max() < 150
    assert abs(draws.flip.float().mean().item() - 0.5) < 0.02


def test_crops_cover_scale_and_aspect_and_fit_the_image():
    draws = draw("resized-crop", 20_000, (3, 64, 64), np.random.default_rng(1))
    area, aspect = draws.crop[:, 0], draws.crop[:, 1]
    assert 0.1 <= area.min() < 0.11
    assert 0.97 < area.max() <= 1
    assert 0.8 <= aspect.min() < 0.81
    assert 1.24 < aspect.max() <= 1.2500001
    top, left, tall, wide = boxes(draws.crop, 64, 64).unbind(-1)
    torch.testing.assert_close(tall * wide / 64**2, area)
    torch.testing.assert_close(wide / tall, aspect)
    assert min(top.min(), left.min()) >= 0
    assert max((top + tall).max(), (left + wide).max()) <= 64.001
    assert abs(draws.flip.float().mean().item() - 0.5) < 0.02


def test_boxes_in_an_oblong_image_are_cut_to_it():
    whole = torch.tensor([[1.0, 1.0, 0.5, 0.5]])
    top, left, tall, wide = boxes(whole, 300, 400)[0].tolist()
    assert (top, tall) == (0, 300)
    assert wide == pytest.approx(math.sqrt(300 * 400))
    assert left == pytest.approx((400 - wide) / 2)


@pytest.mark.parametrize("augmentation", ["flip-shift", "resized-crop"])
def test_draws_index_move_and_repeat(augmentation):
    draws = draw(augmentation, 50, (3, 8, 8), np.random.default_rng(7))
    again = draw(augmentation, 50, (3, 8, 8), np.random.default_rng(7))
    some = draws[10:13].to("cpu")
    assert isinstance(some, Draws)
    assert len(some) == 3
    images = images_and(augmentation, count=50, height=8, width=8)[0]
    assert torch.equal(augment(images, draws)[10:13], augment(images[10:13], again[torch.arange(10, 13)]))


def test_none_draws_nothing_and_unknown_names_are_refused():
    assert draw("none", 5, (3, 8, 8), np.random.default_rng(0)) is None
    with pytest.raises(PrunecastError, match="unknown augmentation 'flip'; choose one of none, flip-shift"):
        draw("flip", 5, (3, 8, 8), np.random.default_rng(0))

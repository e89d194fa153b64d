import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from pictures import class_folders

from prunecast.data import batches, draw, load
from prunecast.data.augmentation import box, boxes
from prunecast.data.files import Folder
from prunecast.data.folders import decoding_threads, opened
from prunecast.data.sources import central, cropped

SHAPE = (3, 16, 16)


def smooth(height, width):
    """A picture with little detail, which any good way of scaling leaves nearly as it is."""
    down, across = np.mgrid[0:height, 0:width] / max(height, width)
    waves = [np.sin(9 * down + 4 * across), np.cos(7 * across), np.sin(11 * down * across)]
    return (127 + 120 * np.stack(waves, axis=-1)).astype(np.uint8)


def plan_of(augmentation, count=9, batch=2):
    draws = draw(augmentation, count, SHAPE, np.random.default_rng(3))
    order = torch.from_numpy(np.random.default_rng(4).permutation(count))
    rows = [slice(start, start + batch) for start in range(0, count, batch)]
    return [(order[row], None if draws is None else draws[row]) for row in rows]


@pytest.mark.parametrize("augmentation", ["none", "flip-shift", "resized-crop"])
def test_batches_read_ahead_are_the_batches_themselves(place, augmentation):
    class_folders(place, test="val", suffix="JPEG", height=30, width=40)
    source = load("imagenet", root=place, image_size=16).train
    plan = plan_of(augmentation)
    ahead = list(batches(source, plan))
    assert len(ahead) == len(plan) == 5
    for images, (indices, draws) in zip(ahead, plan, strict=True):
        assert torch.equal(images, source.batch(indices, draws))
        assert images.is_contiguous(memory_format=torch.channels_last)
    again = list(batches(source, plan[3:]))  # taken up in the middle
    assert all(torch.equal(one, other) for one, other in zip(again, ahead[3:], strict=True))


@pytest.mark.parametrize(("height", "width"), [(375, 500), (500, 375), (16, 16), (1200, 90)])
def test_a_box_in_plain_numbers_is_the_box_of_tensors(height, width):
    crop = draw("resized-crop", 200, SHAPE, np.random.default_rng(0)).crop
    for row, (top, left, tall, wide) in zip(crop, boxes(crop, height, width).tolist(), strict=True):
        assert box(row, height, width) == pytest.approx((left, top, left + wide, top + tall), abs=1e-2)
        right, bottom = box(row, height, width)[2:]
        assert right <= width
        assert bottom <= height


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(("scale", "smaller"), [(1, 1), (3, 2), (5, 4), (20, 8)])
def test_a_jpeg_larger_than_needed_is_decoded_smaller_and_shows_the_same(tmp_path, mode, scale, smaller):
    width, height = 80 * scale, 64 * scale
    Image.fromarray(smooth(height, width)).convert(mode).save(tmp_path / "a.jpg", quality=95)
    tree = Folder(base=tmp_path)
    reduced = opened(tree, "a.jpg", lambda *_: scale)
    assert reduced.mode == "RGB"
    assert reduced.size == (width // smaller, height // smaller)
    Image.fromarray(np.asarray(opened(tree, "a.jpg"))).save(tmp_path / "a.png")  # never decoded smaller
    crop = [0.6, 1.1, 0.3, 0.8]
    for from_jpeg, whole in [
        (cropped(tree, "a.jpg", crop, True, 40), cropped(tree, "a.png", crop, True, 40)),
        (central(tree, "a.jpg", 40), central(tree, "a.png", 40)),
    ]:
        assert from_jpeg.shape == (40, 40, 3)
        assert np.abs(from_jpeg.astype(int) - whole.astype(int)).mean() < 1.5


def test_members_of_a_group_share_the_cores(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = decoding_threads()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert decoding_threads() == max(1, alone // 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "999")
    assert decoding_threads() == 1

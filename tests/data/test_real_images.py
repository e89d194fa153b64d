"""Whole datasets as archives of JPEG class folders, where PRUNECAST_IMAGES names the folder that holds them."""

import os
from pathlib import Path

import pytest
import torch

from prunecast.data import load

IMAGES = os.environ.get("PRUNECAST_IMAGES")
SETS = [("cifar10.tar.xz", 50_000, 10_000, 0.9), ("svhn.tar.xz", 73_257, 26_032, 1 - 5_099 / 26_032)]


@pytest.mark.slow
@pytest.mark.skipif(not IMAGES, reason="PRUNECAST_IMAGES is not set")
@pytest.mark.parametrize(("archive", "train", "test", "chance"), SETS)
def test_whole_datasets(archive, train, test, chance):
    data = load("folder", root=Path(IMAGES) / archive)
    assert (len(data.train), len(data.test), data.num_classes) == (train, test, 10)
    assert data.train.image_shape == (3, 32, 32)
    assert data.chance_error == pytest.approx(chance)
    pixels = data.train.batch(torch.arange(0, train, 7), None)
    assert pixels.mean().abs() < 0.02
    assert pixels.std().item() == pytest.approx(1, abs=0.02)

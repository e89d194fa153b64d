"""Any pair of PyTorch datasets of images and classes is read once and cached; others are refused in a sentence."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))
import torch_pairs

from prunecast.data import load, training_examples
from prunecast.errors import PrunecastError


@pytest.mark.parametrize("name", ["pil", "array", "bytes_", "floats"])
def test_every_form_of_image_gives_the_same_bytes(name, cache):
    data = load(f"torch_pairs:{name}", root=Path("somewhere"))
    expected = np.stack([torch_pairs.pixels(number) for number in range(40)])
    assert np.array_equal(data.train.images.numpy(), expected)
    assert data.train.labels.tolist() == [number % 2 for number in range(40)]
    assert (data.num_classes, len(data.test), data.class_names) == (2, 10, ("even", "odd"))
    assert data.preprocessing is not None
    (entry,) = cache.glob("torch-*")
    assert load(f"torch_pairs:{name}", root=Path("somewhere")).digest == data.digest
    assert list(cache.glob("torch-*")) == [entry]


def test_images_are_decoded_once_and_changed_ones_anew(monkeypatch, cache):
    first = load("torch_pairs:array")
    read = []
    monkeypatch.setitem(
        torch_pairs.FORMS, "array", lambda number: read.append(number) or (torch_pairs.pixels(number), 1)
    )
    monkeypatch.setattr(
        torch_pairs,
        "array",
        lambda: (torch_pairs.Items(lambda n: (255 - torch_pairs.pixels(n), n % 2), 40),) * 2,
    )
    assert load("torch_pairs:array").digest != first.digest
    assert len(list(cache.glob("torch-*"))) == 2


def test_image_size_and_counts():
    assert load("torch_pairs:sizes", image_size=6).train.image_shape == (3, 6, 6)
    assert training_examples("torch_pairs:pil", root=None) == 40


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("one", "returned Items; it must return two datasets"),
        ("stream", "is Endless; it must be a torch.utils.data.Dataset with a length"),
        ("single", r"item 0 is Image; it must be an image and its class, as \(image, label\)"),
        ("boxes", "item 0 has the label dict; it must be a class number"),
        ("regression", r"item 0 has the label 0\.0; it must be a class number"),
        ("normalised", "has pixels from -1 to .*leave normalisation to prunecast"),
        ("augmented", "item 0 is a different image each time; remove random transforms"),
        ("sizes", "item 1 is 8x9 pixels with 3 channels, but the first image is 8x8 .*set image_size"),
        ("text", "has an image of type str"),
        ("deep", "item 0 has pixels of more than 8 bits"),
        ("unseen", "has test images of the class 1, but no training image of it"),
        ("broken", "cannot be read: the function raised OSError: the disk is on fire"),
    ],
)
def test_what_is_no_classification_of_images_is_refused(name, message):
    with pytest.raises(PrunecastError, match=message) as refused:
        load(f"torch_pairs:{name}")
    assert "\n" not in str(refused.value)
    assert torch.get_num_threads() == 1

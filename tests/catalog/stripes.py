"""A dataset of your own in one file: bright columns on noise, in four classes."""

import numpy as np

from prunecast.catalog import DatasetFacts, register_dataset


def read(root):
    """Images of 8x8 pixels; column 2 k is bright in class k."""
    rng = np.random.default_rng(0)
    labels = np.arange(400) % 4
    images = rng.integers(0, 100, (400, 8, 8, 1), dtype=np.uint8)
    images[np.arange(400), :, 2 * labels] += 60
    parts = {"train": slice(0, 300), "test": slice(300, None)}
    return {
        f"{half}_{what}": values[rows]
        for half, rows in parts.items()
        for what, values in (("images", images), ("labels", labels))
    }


STRIPES = register_dataset(
    DatasetFacts(
        name="stripes",
        num_classes=4,
        chance_error=0.75,
        image_shape=(1, 8, 8),
        train_examples=300,
        test_examples=100,
        read=read,
    )
)

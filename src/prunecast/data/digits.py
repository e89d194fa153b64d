"""The embedded digits: 1,797 scanned digits of 8x8 pixels with values 0 to 16."""

from importlib.resources import files

import numpy as np

from prunecast.data.halves import Half, Halves, described

TRAIN_EXAMPLES = 600


def digits() -> Halves:
    """Return the first 600 images for training and the other 1,197 for testing.

    They are the test half of the UCI "Optical Recognition of Handwritten Digits" in the form scikit-learn
    ships, stored in the order `numpy.random.RandomState(0).permutation(1797)`, so that the split is fixed.
    """
    with files("prunecast.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        images, labels = arrays["images"][..., None], arrays["labels"].astype(np.int64)
    train = Half(images=images[:TRAIN_EXAMPLES], labels=labels[:TRAIN_EXAMPLES])
    test = Half(images=images[TRAIN_EXAMPLES:], labels=labels[TRAIN_EXAMPLES:])
    return described(train, test, num_classes=10)

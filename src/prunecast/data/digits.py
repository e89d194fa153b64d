"""The embedded digits: 1,797 scanned digits of 8x8 pixels with values 0 to 16."""

from importlib.resources import files

import numpy as np

from prunecast.catalog import DIGITS
from prunecast.data.halves import Half, Halves, described


def digits() -> Halves:
    """Return the first 600 images for training and the other 1,197 for testing.

    They are the test half of the UCI "Optical Recognition of Handwritten Digits" in the form scikit-learn
    ships, stored in the order `numpy.random.RandomState(0).permutation(1797)`, so that the split is fixed.
    """
    with files("prunecast.data").joinpath("digits.npz").open("rb") as file, np.load(file) as arrays:
        images, labels = arrays["images"][..., None], arrays["labels"].astype(np.int64)
    train = Half(images=images[: DIGITS.train_examples], labels=labels[: DIGITS.train_examples])
    test = Half(images=images[DIGITS.train_examples :], labels=labels[DIGITS.train_examples :])
    return described(train, test, num_classes=DIGITS.num_classes)

"""Sizes of the official datasets, for what is to be known before any data is read."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What does not change about a dataset."""

    train_examples: int
    test_examples: int
    num_classes: int
    image_shape: tuple[int, int, int]
    """Channels, height and width as the network sees them."""


FACTS = {
    "digits": Facts(train_examples=600, test_examples=1197, num_classes=10, image_shape=(1, 8, 8)),
    "cifar10": Facts(train_examples=50_000, test_examples=10_000, num_classes=10, image_shape=(3, 32, 32)),
    "cifar100": Facts(train_examples=50_000, test_examples=10_000, num_classes=100, image_shape=(3, 32, 32)),
    "svhn": Facts(train_examples=73_257, test_examples=26_032, num_classes=10, image_shape=(3, 32, 32)),
    "tinyimagenet": Facts(
        train_examples=100_000, test_examples=10_000, num_classes=200, image_shape=(3, 64, 64)
    ),
    "imagenet": Facts(
        train_examples=1_281_167, test_examples=50_000, num_classes=1000, image_shape=(3, 224, 224)
    ),
}

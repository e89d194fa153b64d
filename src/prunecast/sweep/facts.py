"""The official datasets: their sizes, for what is to be known before any data is read, and their files."""

from dataclasses import dataclass

from prunecast.spec import ChainSpec


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What does not change about a dataset."""

    title: str
    """What people call it."""
    train_examples: int
    test_examples: int
    num_classes: int
    image_shape: tuple[int, int, int]
    """Channels, height and width as the network sees them."""
    files: tuple[str, ...] = ()
    """What tells that it is there: a file or folder, relative to a folder of datasets."""
    official: str = ""
    """Which files to fetch, and where; empty for what ships with the package."""


FACTS = {
    "digits": Facts(
        title="digits",
        train_examples=600,
        test_examples=1197,
        num_classes=10,
        image_shape=(1, 8, 8),
    ),
    "cifar10": Facts(
        title="CIFAR-10",
        train_examples=50_000,
        test_examples=10_000,
        num_classes=10,
        image_shape=(3, 32, 32),
        files=(
            *("cifar-10-batches-py", "cifar-10-batches-bin"),
            *("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
        ),
        official="cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "cifar100": Facts(
        title="CIFAR-100",
        train_examples=50_000,
        test_examples=10_000,
        num_classes=100,
        image_shape=(3, 32, 32),
        files=("cifar-100-python", "cifar-100-binary", "cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
        official="cifar-100-python.tar.gz from https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "svhn": Facts(
        title="SVHN",
        train_examples=73_257,
        test_examples=26_032,
        num_classes=10,
        image_shape=(3, 32, 32),
        files=("train_32x32.mat",),
        official="train_32x32.mat and test_32x32.mat from http://ufldl.stanford.edu/housenumbers",
    ),
    "tinyimagenet": Facts(
        title="TinyImageNet",
        train_examples=100_000,
        test_examples=10_000,
        num_classes=200,
        image_shape=(3, 64, 64),
        files=("tiny-imagenet-200", "tiny-imagenet-200.zip"),
        official="tiny-imagenet-200.zip from http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    ),
    "imagenet": Facts(
        title="ImageNet",
        train_examples=1_281_167,
        test_examples=50_000,
        num_classes=1000,
        image_shape=(3, 224, 224),
        official="ILSVRC2012 from https://image-net.org, as imagenet/train/<class>/ and imagenet/val/<class>/,",
    ),
}


def facts_of(spec: ChainSpec) -> Facts | None:
    """What is known of a chain's data; images of one's own under an official name count as the official ones."""
    return FACTS.get(spec.loader or spec.dataset) or FACTS.get(spec.dataset)

"""Every fact about a dataset, once: the law half and the engine both look it up here.

`register_dataset` adds your own. To train on a dataset, the engine also needs a function that reads its images.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prunecast.errors import PrunecastError, require
from prunecast.plugins import load_attribute, load_plugins
from prunecast.text import normalized

Arrays = Mapping[str, Any]
"""NumPy arrays train_images, train_labels, test_images, test_labels; images are bytes of shape N, H, W, C."""


@dataclass(frozen=True, kw_only=True)
class DatasetFacts:
    """What is known about a dataset before it is read."""

    name: str
    """What plans and tables call it."""
    num_classes: int
    chance_error: float
    """1 minus the largest class's share of the test set: the error of the best constant answer."""
    image_shape: tuple[int, int, int]
    """Channels, height and width as the network sees them."""
    train_examples: int
    test_examples: int
    title: str = ""
    """Its title in messages; by default its name."""
    level_cap: int | None = None
    """The last pruning level in the paper; by default the family's."""
    read: Callable[[Path | None], Arrays] | None = None
    """For a dataset of your own: a function from the plan's root, None if it has none, to the arrays."""
    streamed: bool = False
    """Whether the images are decoded from their files for every batch, because they are too many for memory."""
    scaled: bool = False
    """Whether a plan's image_size may resize the images; those of streamed datasets can always be resized."""
    mean: tuple[float, ...] = ()
    """Mean of each channel of a streamed dataset, as a share of 255; otherwise computed from the training images."""
    std: tuple[float, ...] = ()
    """Standard deviation of each channel, likewise."""
    class_names: tuple[str, ...] = ()
    """Names of the classes in the order of their labels; empty if they have none, or if their folders name them."""
    unpacked: tuple[str, ...] = ()
    """Files or folders of the unpacked download, by which it is found in a folder of datasets."""
    archives: tuple[str, ...] = ()
    """Archives that can be read in place."""
    download: str = ""
    """What to download, and where; empty if it ships with the package or is read by `read`."""

    def __post_init__(self) -> None:
        """Refuse numbers that no dataset has."""
        for field in ("num_classes", "train_examples", "test_examples"):
            if getattr(self, field) < 1:
                raise PrunecastError(
                    f"dataset {self.name!r}: {field} must be at least 1, not {getattr(self, field)}."
                )
        if self.class_names and len(self.class_names) != self.num_classes:
            raise PrunecastError(
                f"dataset {self.name!r}: class_names has {len(self.class_names)} names for {self.num_classes} classes."
            )
        if not 0 < self.chance_error <= 1:
            raise PrunecastError(
                f"dataset {self.name!r}: chance_error must be between 0 and 1, not {self.chance_error:g}."
            )

    @property
    def files(self) -> tuple[str, ...]:
        """Names by which the dataset is found in a folder of datasets."""
        return (*self.unpacked, *self.archives)

    def shape_at(self, image_size: int | None) -> tuple[int, int, int]:
        """The shape of the images at a size; None keeps their own size."""
        if image_size is None:
            return self.image_shape
        if not (self.scaled or self.streamed):
            require_size(self.name, self.image_shape, image_size)
        return self.image_shape[0], image_size, image_size


def require_size(name: str, image_shape: tuple[int, ...], image_size: int) -> None:
    """Refuse a size other than their own for images that cannot be scaled."""
    _, height, width = image_shape
    require(
        (height, width) == (image_size, image_size),
        f"image_size is {image_size}, but the images of {name} are {height}x{width} and are not scaled; remove "
        "image_size.",
    )


_DATASETS: dict[str, DatasetFacts] = {}


def register_dataset(facts: DatasetFacts) -> DatasetFacts:
    """Add a dataset; one of the same name is replaced. Returns the facts, so that a module can keep them."""
    _DATASETS[normalized(facts.name)] = facts
    return facts


def dataset_names() -> tuple[str, ...]:
    """The names of all registered datasets."""
    load_plugins()
    return tuple(facts.name for facts in _DATASETS.values())


def find_dataset(name: str, loader: str | None = None) -> DatasetFacts | None:
    """The facts about a dataset in any spelling (CIFAR-10, cifar10); None if it is unknown.

    The facts of a plan's `loader` come first. A loader `package.module:attribute` is imported.
    """
    if loader is not None and ":" in loader:
        return own_dataset(loader)
    if normalized(name) not in _DATASETS:
        load_plugins()
    own = None if loader is None else _DATASETS.get(normalized(loader))
    return own or _DATASETS.get(normalized(name))


def own_dataset(name: str) -> DatasetFacts | None:
    """The facts that `package.module:attribute` names; None if it is a function, which returns PyTorch datasets."""
    facts = load_attribute(name, "dataset")
    if isinstance(facts, DatasetFacts):
        return facts
    if not callable(facts):
        wanted = (
            "a DatasetFacts, or a function that returns two torch.utils.data.Dataset, to train and to test on"
        )
        raise PrunecastError(f"dataset {name!r} is {type(facts).__name__}; it must be {wanted}.")
    return None


_NUMERALS = tuple("0123456789")
_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree
wolf woman worm
"""
_TORONTO = "https://www.cs.toronto.edu/~kriz/cifar.html"

DIGITS = register_dataset(
    DatasetFacts(
        name="digits",
        num_classes=10,
        chance_error=0.9,
        image_shape=(1, 8, 8),
        train_examples=600,
        test_examples=1197,
        class_names=_NUMERALS,
    )
)
CIFAR10 = register_dataset(
    DatasetFacts(
        name="cifar10",
        title="CIFAR-10",
        num_classes=10,
        chance_error=0.9,
        image_shape=(3, 32, 32),
        train_examples=50_000,
        test_examples=10_000,
        class_names=_CIFAR10,
        unpacked=("cifar-10-batches-py", "cifar-10-batches-bin"),
        archives=("cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"),
        download=f"cifar-10-python.tar.gz from {_TORONTO}",
    )
)
CIFAR100 = register_dataset(
    DatasetFacts(
        name="cifar100",
        title="CIFAR-100",
        num_classes=100,
        chance_error=0.99,
        image_shape=(3, 32, 32),
        train_examples=50_000,
        test_examples=10_000,
        class_names=tuple(_CIFAR100.split()),
        unpacked=("cifar-100-python", "cifar-100-binary"),
        archives=("cifar-100-python.tar.gz", "cifar-100-binary.tar.gz"),
        download=f"cifar-100-python.tar.gz from {_TORONTO}",
    )
)
SVHN = register_dataset(
    DatasetFacts(
        name="svhn",
        title="SVHN",
        num_classes=10,
        chance_error=0.804,
        image_shape=(3, 32, 32),
        train_examples=73_257,
        test_examples=26_032,
        class_names=_NUMERALS,
        unpacked=("train_32x32.mat",),
        download="train_32x32.mat and test_32x32.mat from http://ufldl.stanford.edu/housenumbers",
    )
)
TINYIMAGENET = register_dataset(
    DatasetFacts(
        name="tinyimagenet",
        title="TinyImageNet",
        num_classes=200,
        chance_error=0.995,
        image_shape=(3, 64, 64),
        train_examples=100_000,
        test_examples=10_000,
        level_cap=50,
        scaled=True,
        unpacked=("tiny-imagenet-200",),
        archives=("tiny-imagenet-200.zip",),
        download="tiny-imagenet-200.zip from http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    )
)
IMAGENET = register_dataset(
    DatasetFacts(
        name="imagenet",
        title="ImageNet",
        num_classes=1000,
        chance_error=0.999,
        image_shape=(3, 224, 224),
        train_examples=1_281_167,
        test_examples=50_000,
        level_cap=30,
        streamed=True,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
        download="ILSVRC2012 from https://image-net.org, as imagenet/train/<class>/ and imagenet/val/<class>/,",
    )
)

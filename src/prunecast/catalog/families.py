"""The built-in families by name, and the function that lists the layers of any of their networks."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from prunecast.catalog.datasets import CIFAR10, DIGITS, IMAGENET, TINYIMAGENET
from prunecast.catalog.layers import Architecture, Layer, Shape
from prunecast.catalog.networks import (
    DENSENET_BLOCKS,
    IMAGENET_BLOCKS,
    VGG_SECTIONS,
    VIT_PATCH_SIZES,
    cifar_resnet,
    densenet,
    digits_cnn,
    imagenet_resnet,
    vgg,
    vit,
)
from prunecast.errors import PrunecastError

LEVEL_CAP = 40
"""The last pruning level of a chain, unless its dataset or its family has another."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A built-in family."""

    layers: Callable[[int, float, int, Shape], tuple[Layer, ...]]
    """The layers for a depth, a width, a number of classes and a shape of images."""
    image_shape: Shape
    """Channels, height and width of the images it was designed for."""
    depths: range | tuple[int, ...]
    """The depths it has."""
    level_cap: int = LEVEL_CAP
    """The last pruning level in the paper, unless the dataset has another."""
    gain: float = 1.0
    """Factor on the bounds of He uniform initial weights."""

    @property
    def valid_depths(self) -> str:
        """The depths as text, for messages."""
        if isinstance(self.depths, tuple):
            return ", ".join(map(str, self.depths))
        start, step = self.depths.start, self.depths.step
        return ", ".join(map(str, range(start, start + 4 * step, step))) + f" ... {self.depths[-1]}"


CIFAR = CIFAR10.image_shape
LARGE = tuple(IMAGENET_BLOCKS)

VIT_GAIN = 1 / 3
"""Small ViTs trained on the digits for 40 epochs had an error of 0.13 with He's bounds, 0.05 with this gain and with
torch's bounds, and 0.13 with a truncated normal distribution of deviation 0.02."""

FAMILIES = {
    "cifar_resnet": Family(layers=cifar_resnet, image_shape=CIFAR, depths=range(8, 1203, 6)),
    "vgg": Family(layers=vgg, image_shape=CIFAR, depths=tuple(VGG_SECTIONS), level_cap=37),
    "densenet": Family(layers=densenet, image_shape=CIFAR, depths=tuple(DENSENET_BLOCKS), level_cap=50),
    "imagenet_resnet": Family(layers=imagenet_resnet, image_shape=IMAGENET.image_shape, depths=LARGE),
    "tinyimagenet_resnet": Family(layers=imagenet_resnet, image_shape=TINYIMAGENET.image_shape, depths=LARGE),
    "digits_cnn": Family(layers=digits_cnn, image_shape=DIGITS.image_shape, depths=range(3, 22)),
    **{
        f"vit_patch{size}": Family(
            layers=vit(size),
            image_shape=CIFAR if 32 // size > 2 else IMAGENET.image_shape,
            depths=range(1, 49),
            gain=VIT_GAIN,
        )
        for size in VIT_PATCH_SIZES
    },
}


def vit_family(patch_size: int) -> str:
    """The name of the ViT family with this patch size."""
    if patch_size not in VIT_PATCH_SIZES:
        raise PrunecastError(
            f"patch_size is {patch_size}; choose one of {', '.join(map(str, VIT_PATCH_SIZES))}."
        )
    return f"vit_patch{patch_size}"


def architecture(
    family: str, *, depth: int, width: float, num_classes: int, image_shape: Shape | None = None
) -> Architecture:
    """One network of a built-in family; image_shape (C, H, W) replaces the one that the family was designed for."""
    if family not in FAMILIES:
        raise PrunecastError(f"unknown family {family!r}; the built-in families are {', '.join(FAMILIES)}.")
    own = FAMILIES[family]
    if depth not in own.depths:
        raise PrunecastError(f"{family} has no depth {depth}; its depths are {own.valid_depths}.")
    if not (isfinite(width) and width > 0):
        raise PrunecastError(f"the width of {family} must be a positive number, not {width}.")
    if num_classes < 1:
        raise PrunecastError(f"{family} needs at least one class, not {num_classes}.")
    shape = own.image_shape if image_shape is None else image_shape
    return Architecture(
        family=family,
        depth=depth,
        width=width,
        num_classes=num_classes,
        image_shape=shape,
        layers=own.layers(depth, width, num_classes, shape),
    )

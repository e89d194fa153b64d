"""The built-in families by name, and the one function that makes a member of any of them."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from prunecast.architectures.architecture import Architecture
from prunecast.architectures.densenet import BLOCKS, densenet
from prunecast.architectures.digits_cnn import digits_cnn
from prunecast.architectures.layer import Layer, Shape
from prunecast.architectures.resnet import IMAGENET_BLOCKS, cifar_resnet, imagenet_resnet
from prunecast.architectures.vgg import SECTIONS, vgg
from prunecast.errors import PrunecastError


@dataclass(frozen=True, kw_only=True)
class Family:
    """A built-in family: how to draw a member, the images it was made for, the depths it has."""

    draw: Callable[[int, float, int, Shape], tuple[Layer, ...]]
    image_shape: Shape
    depths: range | tuple[int, ...]

    @property
    def valid_depths(self) -> str:
        """The depths in words, for messages."""
        if isinstance(self.depths, tuple):
            return ", ".join(map(str, self.depths))
        start, step = self.depths.start, self.depths.step
        return ", ".join(map(str, range(start, start + 4 * step, step))) + f" ... {self.depths[-1]}"


FAMILIES = {
    "cifar_resnet": Family(draw=cifar_resnet, image_shape=(3, 32, 32), depths=range(8, 1203, 6)),
    "vgg": Family(draw=vgg, image_shape=(3, 32, 32), depths=tuple(SECTIONS)),
    "densenet": Family(draw=densenet, image_shape=(3, 32, 32), depths=tuple(BLOCKS)),
    "imagenet_resnet": Family(draw=imagenet_resnet, image_shape=(3, 224, 224), depths=tuple(IMAGENET_BLOCKS)),
    "tinyimagenet_resnet": Family(
        draw=imagenet_resnet, image_shape=(3, 64, 64), depths=tuple(IMAGENET_BLOCKS)
    ),
    "digits_cnn": Family(draw=digits_cnn, image_shape=(1, 8, 8), depths=range(3, 22)),
}


def architecture(
    family: str, *, depth: int, width: float, num_classes: int, image_shape: Shape | None = None
) -> Architecture:
    """Return one member of a built-in family; image_shape (C, H, W) replaces the one it was made for."""
    if family not in FAMILIES:
        raise PrunecastError(f"unknown family {family!r}; the built-in families are {', '.join(FAMILIES)}.")
    member = FAMILIES[family]
    if depth not in member.depths:
        raise PrunecastError(f"{family} has no depth {depth}; its depths are {member.valid_depths}.")
    if not (isfinite(width) and width > 0):
        raise PrunecastError(f"the width of {family} must be a positive number, not {width}.")
    if num_classes < 1:
        raise PrunecastError(f"{family} needs at least one class, not {num_classes}.")
    shape = member.image_shape if image_shape is None else image_shape
    return Architecture(
        family=family,
        depth=depth,
        width=width,
        num_classes=num_classes,
        image_shape=shape,
        layers=member.draw(depth, width, num_classes, shape),
    )

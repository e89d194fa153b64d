"""The computation of a fused step: convolutions with their norms, and the values (after ReLU) between them."""

from dataclasses import dataclass

from prunecast.errors import PrunecastError

TILE = 16
"""Channels per tile; the GPU's tensor cores multiply tiles of this size."""


class Unfused(PrunecastError):  # noqa: N818 - an answer, not something that broke
    """The kernels do not support this pack; it trains compiled or eager."""


@dataclass(frozen=True, kw_only=True)
class Convolution:
    """A convolution without bias (padding kernel // 2) and the batch norm that is its only reader."""

    name: str
    """The module of the convolution."""
    norm: str
    """The module of the batch norm."""
    source: int
    """The value it reads."""
    kernel: int
    stride: int
    in_channels: int
    out_channels: int
    in_size: int
    """Height and width of the images it reads."""
    out_size: int
    groups: int
    """Groups of the packed weight, whose shape is (out_channels, in_channels // groups, kernel, kernel)."""
    tiles: tuple[tuple[int, int], ...]
    """Every (tile of outputs, tile of inputs) where a slot has a weight, sorted and counted without groups.

    Every tile of outputs and every tile of inputs occurs at least once.
    """
    eps: float
    momentum: float


@dataclass(frozen=True, kw_only=True)
class Value:
    """An activation: relu(norm of `convolution` + norm of `shortcut` + value `other`), or the images."""

    convolution: int | None
    """None for the images."""
    shortcut: int | None = None
    """A convolution; at most one of `shortcut` and `other` is given."""
    other: int | None = None
    """An earlier value, never the images."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """A packed network: class scores are the linear module `head` of the mean of the value `final`.

    A convolution reads an earlier value than the one it makes, so the values can be computed in order.
    Everything but `final` has a reader: a convolution and a norm one, a value one or several.
    """

    convolutions: tuple[Convolution, ...]
    values: tuple[Value, ...]
    """The first value is the images."""
    final: int
    head: str
    members: tuple[tuple[int, int], ...]
    """For every slot its first channel in the final value, and its number of channels."""
    classes: int
    """Classes per slot; slot s has the rows s · classes … of the head."""
    image_channels: int
    """Channels of the packed images, including padding."""
    image_size: int

    def channels(self, value: int) -> int:
        """Return the packed channels of a value."""
        maker = self.values[value].convolution
        return self.image_channels if maker is None else self.convolutions[maker].out_channels

    def size(self, value: int) -> int:
        """Return the height and width of a value."""
        maker = self.values[value].convolution
        return self.image_size if maker is None else self.convolutions[maker].out_size

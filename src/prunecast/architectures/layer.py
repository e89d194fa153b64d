"""One layer of a network as plain numbers: what it reads, its shapes, and what it costs."""

from dataclasses import dataclass
from math import prod
from typing import Literal

Kind = Literal[
    "conv",
    "linear",
    "norm",
    "relu",
    "add",
    "concat",
    "max_pool",
    "average_pool",
    "global_average",
    "flatten",
]
Shape = tuple[int, ...]

IMAGE = "image"
"""The name by which layers read the network's input."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One operation; convolutions have no bias (a norm follows them), linear layers have one."""

    name: str
    kind: Kind
    inputs: tuple[str, ...]
    """Names of the layers it reads, or `image`."""
    in_shape: Shape
    """Channels, height, width (or features alone) of its first input."""
    out_shape: Shape
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    in_depth: bool = True
    """False for the convolution of a shortcut, which the depth of a network does not count."""

    @property
    def weight_shape(self) -> Shape:
        """Shape of the prunable weight, output channels first; empty where there is none."""
        if self.kind == "conv":
            return (self.out_shape[0], self.in_shape[0], self.kernel, self.kernel)
        if self.kind == "linear":
            return (self.out_shape[0], self.in_shape[0])
        return ()

    @property
    def weights(self) -> int:
        """Number of prunable weights."""
        return prod(self.weight_shape) if self.weight_shape else 0

    @property
    def unpruned_parameters(self) -> int:
        """Number of parameters never pruned: a norm's scale and shift per channel, a linear layer's bias."""
        if self.kind == "norm":
            return 2 * self.out_shape[0]
        return self.out_shape[0] if self.kind == "linear" else 0

    @property
    def parameters(self) -> int:
        """Number of all trained parameters."""
        return self.weights + self.unpruned_parameters

    @property
    def positions(self) -> int:
        """How many times each weight is used on one image: output height × width, 1 for linear."""
        return prod(self.out_shape[1:])

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of one image: weights × positions (norms, pooling and additions not counted)."""
        return self.weights * self.positions

"""Networks as lists of layers: shapes, parameter counts, multiply-adds, and the builder of such lists."""

from dataclasses import dataclass
from math import prod
from typing import Literal

from prunecast.errors import PrunecastError

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
    "tokens",
    "layer_norm",
    "gelu",
    "attention",
    "token_average",
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
    """Channels, height, width of its first input; or channels, tokens; or features alone."""
    out_shape: Shape
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    heads: int = 1
    """Heads of attention."""
    in_depth: bool = True
    """False for the convolution of a shortcut, which does not count towards the depth of a network."""

    @property
    def weight_shape(self) -> Shape:
        """Shape of the prunable weight, output channels first; empty if there is none."""
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
        if self.kind in ("norm", "layer_norm"):
            return 2 * self.out_shape[0]
        return self.out_shape[0] if self.kind == "linear" else 0

    @property
    def parameters(self) -> int:
        """Number of all trained parameters."""
        return self.weights + self.unpruned_parameters

    @property
    def positions(self) -> int:
        """How often each weight is used per image: output height × width, or the number of tokens."""
        return prod(self.out_shape[1:])

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per image: weights × positions (norms, pooling and additions are not counted).

        Attention multiplies all queries with all keys, and the result with all values: 2 · channels · tokens².
        """
        if self.kind == "attention":
            return 2 * self.out_shape[0] * self.positions**2
        return self.weights * self.positions


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """One network of a family; each layer comes after the layers that it reads, and the last is the output."""

    family: str
    depth: int
    width: float
    num_classes: int
    image_shape: Shape
    """Channels, height, width of the images it reads."""
    layers: tuple[Layer, ...]

    @property
    def image_size(self) -> int:
        """Height of the images it reads."""
        return self.image_shape[1]

    @property
    def weights(self) -> int:
        """Number of prunable weights."""
        return sum(layer.weights for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Number of all trained parameters: prunable weights, biases, scales and shifts of norms."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds per image of the unpruned network."""
        return sum(layer.multiply_adds for layer in self.layers)


def scaled(channels: int, width: float) -> int:
    """The channels at a width: max(1, round(channels · width)), halves rounded to the even number."""
    return max(1, round(channels * width))


class LayerBuilder:
    """Appends layers one by one and computes their shapes; each method returns the name of its output."""

    def __init__(self, image_shape: Shape) -> None:
        self._shapes: dict[str, Shape] = {IMAGE: image_shape}
        self._layers: list[Layer] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order in which they were added."""
        return tuple(self._layers)

    def channels(self, name: str) -> int:
        """The number of channels of a layer's output."""
        return self._shapes[name][0]

    def conv(
        self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1, in_depth: bool = True
    ) -> str:
        """Add a convolution padded so that stride 1 keeps the size."""
        padding = kernel // 2
        out = (channels, *self._slid(name, x, kernel, stride, padding))
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        return self._add(name, "conv", (x,), out, in_depth=in_depth, **window)

    def norm(self, name: str, x: str) -> str:
        """Add a batch normalisation."""
        return self._add(name, "norm", (x,), self._shapes[x])

    def relu(self, name: str, x: str) -> str:
        """Add a rectifier."""
        return self._add(name, "relu", (x,), self._shapes[x])

    def conv_norm(self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1) -> str:
        """Add a convolution and its batch normalisation."""
        return self.norm(f"{name}_norm", self.conv(name, x, channels, kernel, stride))

    def conv_norm_relu(self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1) -> str:
        """Add a convolution, its batch normalisation and a rectifier."""
        return self.relu(f"{name}_relu", self.conv_norm(name, x, channels, kernel, stride))

    def shortcut(self, name: str, x: str, channels: int, stride: int) -> str:
        """Add a residual shortcut: the input itself where the shape stays, else 1x1 convolution and norm."""
        if stride == 1 and self.channels(x) == channels:
            return x
        return self.norm(f"{name}_norm", self.conv(name, x, channels, 1, stride, in_depth=False))

    def add(self, name: str, x: str, y: str) -> str:
        """Add the sum of two outputs of the same shape."""
        return self._add(name, "add", (x, y), self._shapes[x])

    def concat(self, name: str, x: str, y: str) -> str:
        """Add a concatenation along channels, x first."""
        return self._add(name, "concat", (x, y), (self.channels(x) + self.channels(y), *self._shapes[x][1:]))

    def pool(self, name: str, kind: Kind, x: str, kernel: int = 2, stride: int = 2, padding: int = 0) -> str:
        """Add a `max_pool` or `average_pool`."""
        out = (self.channels(x), *self._slid(name, x, kernel, stride, padding))
        return self._add(name, kind, (x,), out, kernel=kernel, stride=stride, padding=padding)

    def global_average(self, name: str, x: str) -> str:
        """Add the mean over height and width."""
        return self._add(name, "global_average", (x,), (self.channels(x),))

    def flatten(self, name: str, x: str) -> str:
        """Add the flattening of channels, height and width into features."""
        channels, height, width = self._shapes[x]
        return self._add(name, "flatten", (x,), (channels * height * width,))

    def linear(self, name: str, x: str, features: int) -> str:
        """Add a linear layer with bias, for each token if there are tokens."""
        return self._add(name, "linear", (x,), (features, *self._shapes[x][1:]))

    def patches(self, name: str, x: str, channels: int, size: int) -> str:
        """Add a convolution of square patches, which must fill the image."""
        _, height, width = self._shapes[x]
        if height % size or width % size:
            raise PrunecastError(
                f"images of {height}x{width} pixels cannot be cut into patches of {size}x{size}; choose a patch_size "
                "that divides both, or set image_size."
            )
        out = (channels, height // size, width // size)
        return self._add(name, "conv", (x,), out, kernel=size, stride=size)

    def tokens(self, name: str, x: str) -> str:
        """Add the reading of positions as tokens, with sines and cosines of their rows and columns added."""
        channels, height, width = self._shapes[x]
        return self._add(name, "tokens", (x,), (channels, height * width))

    def layer_norm(self, name: str, x: str) -> str:
        """Add a normalisation of each token."""
        return self._add(name, "layer_norm", (x,), self._shapes[x])

    def gelu(self, name: str, x: str) -> str:
        """Add a Gaussian error linear unit."""
        return self._add(name, "gelu", (x,), self._shapes[x])

    def attention(self, name: str, x: str, heads: int) -> str:
        """Add attention between all tokens, of queries, keys and values that x has one after the other."""
        channels, tokens = self._shapes[x]
        return self._add(name, "attention", (x,), (channels // 3, tokens), heads=heads)

    def token_average(self, name: str, x: str) -> str:
        """Add the mean over all tokens."""
        return self._add(name, "token_average", (x,), (self.channels(x),))

    def _slid(self, name: str, x: str, kernel: int, stride: int, padding: int) -> tuple[int, int]:
        """The size after a sliding window: floor((size + 2·padding − kernel) / stride) + 1."""
        _, height, width = self._shapes[x]
        rows, columns = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
        if min(rows, columns) < 1:
            raise PrunecastError(f"the images are too small for this network: layer {name!r} has no output.")
        return rows, columns

    def _add(
        self,
        name: str,
        kind: Kind,
        inputs: tuple[str, ...],
        out: Shape,
        kernel: int = 1,
        stride: int = 1,
        padding: int = 0,
        heads: int = 1,
        in_depth: bool = True,
    ) -> str:
        self._layers.append(
            Layer(
                name=name,
                kind=kind,
                inputs=inputs,
                in_shape=self._shapes[inputs[0]],
                out_shape=out,
                kernel=kernel,
                stride=stride,
                padding=padding,
                heads=heads,
                in_depth=in_depth,
            )
        )
        self._shapes[name] = out
        return name

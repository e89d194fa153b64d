"""A pencil for layer lists: each call appends one layer, works out its shapes and returns its name."""

from prunecast.architectures.layer import IMAGE, Kind, Layer, Shape
from prunecast.errors import PrunecastError


def scaled(channels: int, width: float) -> int:
    """Return the channels at a width: max(1, round(channels · width)), halves rounded to the even number."""
    return max(1, round(channels * width))


class Sketch:
    """The layers drawn so far; names of layers stand for their outputs."""

    def __init__(self, image_shape: Shape) -> None:
        self._shapes: dict[str, Shape] = {IMAGE: image_shape}
        self._layers: list[Layer] = []

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers in the order drawn."""
        return tuple(self._layers)

    def channels(self, name: str) -> int:
        """Return the number of channels of a layer's output."""
        return self._shapes[name][0]

    def conv(
        self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1, in_depth: bool = True
    ) -> str:
        """Draw a convolution padded so that stride 1 keeps the size."""
        padding = kernel // 2
        out = (channels, *self._slid(name, x, kernel, stride, padding))
        window = {"kernel": kernel, "stride": stride, "padding": padding}
        return self._add(name, "conv", (x,), out, in_depth=in_depth, **window)

    def norm(self, name: str, x: str) -> str:
        """Draw a batch normalisation."""
        return self._add(name, "norm", (x,), self._shapes[x])

    def relu(self, name: str, x: str) -> str:
        """Draw a rectifier."""
        return self._add(name, "relu", (x,), self._shapes[x])

    def conv_norm(self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1) -> str:
        """Draw a convolution and its batch normalisation."""
        return self.norm(f"{name}_norm", self.conv(name, x, channels, kernel, stride))

    def conv_norm_relu(self, name: str, x: str, channels: int, kernel: int = 3, stride: int = 1) -> str:
        """Draw a convolution, its batch normalisation and a rectifier."""
        return self.relu(f"{name}_relu", self.conv_norm(name, x, channels, kernel, stride))

    def shortcut(self, name: str, x: str, channels: int, stride: int) -> str:
        """Draw a residual block's shortcut: none where the shape stays, else 1x1 convolution and norm."""
        if stride == 1 and self.channels(x) == channels:
            return x
        return self.norm(f"{name}_norm", self.conv(name, x, channels, 1, stride, in_depth=False))

    def add(self, name: str, x: str, y: str) -> str:
        """Draw a sum of two outputs of one shape."""
        return self._add(name, "add", (x, y), self._shapes[x])

    def concat(self, name: str, x: str, y: str) -> str:
        """Draw a concatenation along channels, x first."""
        return self._add(name, "concat", (x, y), (self.channels(x) + self.channels(y), *self._shapes[x][1:]))

    def pool(self, name: str, kind: Kind, x: str, kernel: int = 2, stride: int = 2, padding: int = 0) -> str:
        """Draw a `max_pool` or `average_pool`."""
        out = (self.channels(x), *self._slid(name, x, kernel, stride, padding))
        return self._add(name, kind, (x,), out, kernel=kernel, stride=stride, padding=padding)

    def global_average(self, name: str, x: str) -> str:
        """Draw the mean over height and width."""
        return self._add(name, "global_average", (x,), (self.channels(x),))

    def flatten(self, name: str, x: str) -> str:
        """Draw the flattening of channels, height and width into features."""
        channels, height, width = self._shapes[x]
        return self._add(name, "flatten", (x,), (channels * height * width,))

    def linear(self, name: str, x: str, features: int) -> str:
        """Draw a linear layer with bias."""
        return self._add(name, "linear", (x,), (features,))

    def _slid(self, name: str, x: str, kernel: int, stride: int, padding: int) -> tuple[int, int]:
        """Return the size a window leaves: floor((size + 2·padding − kernel) / stride) + 1."""
        _, height, width = self._shapes[x]
        rows, columns = ((size + 2 * padding - kernel) // stride + 1 for size in (height, width))
        if min(rows, columns) < 1:
            raise PrunecastError(f"the images are too small: nothing is left of them at layer {name!r}.")
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
                in_depth=in_depth,
            )
        )
        self._shapes[name] = out
        return name

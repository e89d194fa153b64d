"""A whole network as a list of layers, and the sums over it."""

from dataclasses import dataclass

from prunecast.architectures.layer import Layer, Shape


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The layers of one member of a family, each listed after the layers it reads; the last is the output."""

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
        """Multiply-adds of one image through the unpruned network."""
        return sum(layer.multiply_adds for layer in self.layers)

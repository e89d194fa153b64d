"""DenseNet for CIFAR: every block's output is concatenated to its input, and transitions halve both."""

from prunecast.architectures.layer import IMAGE, Layer, Shape
from prunecast.architectures.sketch import Sketch, scaled

GROWTH = 16
BOTTLENECK = 4
BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


def densenet(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """Return a DenseNet of growth g = max(1, round(16 · width)).

    A 3x3 stem of 2g channels, four sets of blocks with transitions between them, then norm, ReLU,
    global average and a linear head. Norm and ReLU stand before each convolution but the stem.
    """
    growth = scaled(GROWTH, width)
    sketch = Sketch(image_shape)
    x = sketch.conv("stem", IMAGE, 2 * growth)
    for number, count in enumerate(BLOCKS[depth], start=1):
        if number > 1:
            x = _transition(sketch, f"transition{number - 1}", x)
        for block in range(1, count + 1):
            x = _dense_block(sketch, f"set{number}_block{block}", x, growth)
    x = sketch.relu("final_relu", sketch.norm("final_norm", x))
    sketch.linear("head", sketch.global_average("average", x), num_classes)
    return sketch.layers


def _norm_relu_conv(sketch: Sketch, name: str, x: str, channels: int, kernel: int) -> str:
    x = sketch.relu(f"{name}_relu", sketch.norm(f"{name}_norm", x))
    return sketch.conv(name, x, channels, kernel)


def _dense_block(sketch: Sketch, name: str, x: str, growth: int) -> str:
    """Draw 1x1 to 4g channels, 3x3 to g channels, and the concatenation of input and output in that order."""
    y = _norm_relu_conv(sketch, f"{name}_conv1", x, BOTTLENECK * growth, 1)
    y = _norm_relu_conv(sketch, f"{name}_conv2", y, growth, 3)
    return sketch.concat(f"{name}_concat", x, y)


def _transition(sketch: Sketch, name: str, x: str) -> str:
    """Draw a 1x1 convolution to half the channels (rounded down, at least one) and 2x2 average pooling."""
    x = _norm_relu_conv(sketch, f"{name}_conv", x, max(1, sketch.channels(x) // 2), 1)
    return sketch.pool(f"{name}_pool", "average_pool", x)

"""DenseNet for CIFAR: every block's output is concatenated to its input, and transitions halve both."""

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled

GROWTH = 16
BOTTLENECK = 4
BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


def densenet(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """A DenseNet of growth g = max(1, round(16 · width)).

    A 3x3 stem of 2g channels, four sets of blocks with transitions between them, then norm, ReLU,
    global average and a linear head. Norm and ReLU come before each convolution but the stem.
    """
    growth = scaled(GROWTH, width)
    build = LayerBuilder(image_shape)
    x = build.conv("stem", IMAGE, 2 * growth)
    for number, count in enumerate(BLOCKS[depth], start=1):
        if number > 1:
            x = _transition(build, f"transition{number - 1}", x)
        for block in range(1, count + 1):
            x = _dense_block(build, f"set{number}_block{block}", x, growth)
    x = build.relu("final_relu", build.norm("final_norm", x))
    build.linear("head", build.global_average("average", x), num_classes)
    return build.layers


def _norm_relu_conv(build: LayerBuilder, name: str, x: str, channels: int, kernel: int) -> str:
    x = build.relu(f"{name}_relu", build.norm(f"{name}_norm", x))
    return build.conv(name, x, channels, kernel)


def _dense_block(build: LayerBuilder, name: str, x: str, growth: int) -> str:
    """Add 1x1 to 4g channels, 3x3 to g channels, and the concatenation of input and output in that order."""
    y = _norm_relu_conv(build, f"{name}_conv1", x, BOTTLENECK * growth, 1)
    y = _norm_relu_conv(build, f"{name}_conv2", y, growth, 3)
    return build.concat(f"{name}_concat", x, y)


def _transition(build: LayerBuilder, name: str, x: str) -> str:
    """Add a 1x1 convolution to half the channels (rounded down, at least one) and 2x2 average pooling."""
    x = _norm_relu_conv(build, f"{name}_conv", x, max(1, build.channels(x) // 2), 1)
    return build.pool(f"{name}_pool", "average_pool", x)

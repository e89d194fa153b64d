"""Residual networks: the CIFAR family of basic blocks, and the ImageNet family with its stem and max-pool."""

from collections.abc import Callable

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled

CIFAR_CHANNELS = (16, 32, 64)
IMAGENET_CHANNELS = (64, 128, 256, 512)
IMAGENET_BLOCKS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
EXPANSION = 4
"""The last convolution of a bottleneck has this many times the channels of the others."""

Block = Callable[[LayerBuilder, str, str, int, int], str]


def basic_block(build: LayerBuilder, name: str, x: str, channels: int, stride: int) -> str:
    """Add two 3x3 convolutions around a shortcut."""
    y = build.conv_norm_relu(f"{name}_conv1", x, channels, 3, stride)
    y = build.conv_norm(f"{name}_conv2", y, channels)
    return _join(build, name, x, y, stride)


def bottleneck(build: LayerBuilder, name: str, x: str, channels: int, stride: int) -> str:
    """Add 1x1, 3x3 (with the stride) and 1x1 convolutions around a shortcut, the last four times as wide."""
    y = build.conv_norm_relu(f"{name}_conv1", x, channels, 1)
    y = build.conv_norm_relu(f"{name}_conv2", y, channels, 3, stride)
    y = build.conv_norm(f"{name}_conv3", y, EXPANSION * channels, 1)
    return _join(build, name, x, y, stride)


def _join(build: LayerBuilder, name: str, x: str, y: str, stride: int) -> str:
    shortcut = build.shortcut(f"{name}_shortcut", x, build.channels(y), stride)
    return build.relu(f"{name}_relu", build.add(f"{name}_add", y, shortcut))


def _stages(
    build: LayerBuilder, x: str, block: Block, blocks: tuple[int, ...], channels: tuple[int, ...]
) -> str:
    """Add the stages; each but the first halves the image in its first block."""
    for stage, (count, wide) in enumerate(zip(blocks, channels, strict=True), start=1):
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            x = block(build, f"stage{stage}_block{number}", x, wide, stride)
    return x


def _head(build: LayerBuilder, x: str, num_classes: int) -> tuple[Layer, ...]:
    build.linear("head", build.global_average("average", x), num_classes)
    return build.layers


def cifar_resnet(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """A CIFAR ResNet of depth 6B + 2: a stem, three stages of B basic blocks, a linear head."""
    blocks = (depth - 2) // 6
    channels = tuple(scaled(wide, width) for wide in CIFAR_CHANNELS)
    build = LayerBuilder(image_shape)
    x = build.conv_norm_relu("stem", IMAGE, channels[0])
    return _head(build, _stages(build, x, basic_block, (blocks,) * 3, channels), num_classes)


def imagenet_resnet(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """An ImageNet ResNet: 7x7 stem and 3x3 max-pool of stride 2, four stages, a linear head.

    Depths 18 and 34 have basic blocks, 50 and more have bottlenecks.
    """
    channels = tuple(scaled(wide, width) for wide in IMAGENET_CHANNELS)
    build = LayerBuilder(image_shape)
    x = build.conv_norm_relu("stem", IMAGE, channels[0], 7, 2)
    x = build.pool("stem_pool", "max_pool", x, 3, 2, 1)
    block = basic_block if depth < 50 else bottleneck
    return _head(build, _stages(build, x, block, IMAGENET_BLOCKS[depth], channels), num_classes)

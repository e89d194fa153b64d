"""The layers of every built-in network, added one by one: residual networks, VGG, DenseNet, a small CNN and ViT."""

from collections.abc import Callable

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled


def _head(build: LayerBuilder, x: str, num_classes: int) -> tuple[Layer, ...]:
    """Add the mean over the positions and a linear layer; the network is then complete."""
    build.linear("head", build.global_average("average", x), num_classes)
    return build.layers


# Residual networks: the CIFAR family of basic blocks, and the ImageNet family with its stem and max-pool.

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


# VGG for CIFAR: five sections of 3x3 convolutions, each followed by 2x2 max pooling, and a linear head.

VGG_CHANNELS = (64, 128, 256, 512, 512)
VGG_SECTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each section; the names count three linear layers, of which CIFAR networks keep one."""


def vgg(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """A VGG; after five poolings, 32x32 images have 512·width features at one position."""
    build, x = LayerBuilder(image_shape), IMAGE
    for section, (count, channels) in enumerate(zip(VGG_SECTIONS[depth], VGG_CHANNELS, strict=True), start=1):
        for number in range(1, count + 1):
            x = build.conv_norm_relu(f"section{section}_conv{number}", x, scaled(channels, width))
        x = build.pool(f"section{section}_pool", "max_pool", x)
    build.linear("head", build.flatten("features", x), num_classes)
    return build.layers


# DenseNet for CIFAR: every block's output is concatenated to its input, and transitions halve both.

GROWTH = 16
BOTTLENECK = 4
DENSENET_BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


def densenet(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """A DenseNet of growth g = max(1, round(16 · width)).

    A 3x3 stem of 2g channels, four sets of blocks with transitions between them, then norm, ReLU,
    global average and a linear head. Norm and ReLU come before each convolution but the stem.
    """
    growth = scaled(GROWTH, width)
    build = LayerBuilder(image_shape)
    x = build.conv("stem", IMAGE, 2 * growth)
    for number, count in enumerate(DENSENET_BLOCKS[depth], start=1):
        if number > 1:
            x = _transition(build, f"transition{number - 1}", x)
        for block in range(1, count + 1):
            x = _dense_block(build, f"set{number}_block{block}", x, growth)
    x = build.relu("final_relu", build.norm("final_norm", x))
    return _head(build, x, num_classes)


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


# A small convolutional family for the embedded 8x8 digits, fast enough for a whole study on one core.

DIGITS_CHANNELS = (8, 16)


def digits_cnn(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """Two sections of 3x3 convolutions with 8 and 16 channels, depth − 1 in all, and a linear head.

    2x2 max pooling separates the sections, and a global average comes before the head. If depth − 1 is odd, the
    second section has one convolution more.
    """
    convolutions = depth - 1
    first = convolutions // 2
    build, x = LayerBuilder(image_shape), IMAGE
    for number in range(1, convolutions + 1):
        if number == first + 1:
            x = build.pool("pool", "max_pool", x)
        x = build.conv_norm_relu(f"conv{number}", x, scaled(DIGITS_CHANNELS[number > first], width))
    return _head(build, x, num_classes)


# Vision transformers in their plain form: patches, blocks of attention and two linear layers, a mean over the patches.
# Norms come before attention and linear layers. Positions are fixed sines and cosines, so that all that is stored are
# weights, biases and norms. Depth counts blocks.

HEADS = 3
HEAD_CHANNELS = 64
"""Channels of a head at width 1, so that there are 192 in all."""
MLP = 4
"""Channels between the two linear layers of a block, as a multiple of the others."""
VIT_PATCH_SIZES = (2, 4, 8, 14, 16, 32)
"""The patch sizes that have a family, `vit_patch4` for 4."""


def vit(patch_size: int) -> Callable[[int, float, int, Shape], tuple[Layer, ...]]:
    """The layers of a ViT with square patches of this size."""

    def layers(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
        channels = HEADS * scaled(HEAD_CHANNELS, width)
        build = LayerBuilder(image_shape)
        x = build.tokens("tokens", build.patches("patches", IMAGE, channels, patch_size))
        for number in range(1, depth + 1):
            x = _block(build, f"block{number}", x, channels)
        x = build.token_average("average", build.layer_norm("final_norm", x))
        build.linear("head", x, num_classes)
        return build.layers

    return layers


def _block(build: LayerBuilder, name: str, x: str, channels: int) -> str:
    y = build.linear(f"{name}_qkv", build.layer_norm(f"{name}_norm1", x), 3 * channels)
    y = build.linear(f"{name}_out", build.attention(f"{name}_attention", y, HEADS), channels)
    x = build.add(f"{name}_add1", x, y)
    y = build.linear(f"{name}_mlp1", build.layer_norm(f"{name}_norm2", x), MLP * channels)
    y = build.linear(f"{name}_mlp2", build.gelu(f"{name}_gelu", y), channels)
    return build.add(f"{name}_add2", x, y)

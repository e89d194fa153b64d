"""VGG for CIFAR: five sections of 3x3 convolutions, each followed by 2x2 max pooling, and a linear head."""

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled

CHANNELS = (64, 128, 256, 512, 512)
SECTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each section; the names count three linear layers, of which CIFAR networks keep one."""


def vgg(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """A VGG; after five poolings, 32x32 images have 512·width features at one position."""
    build, x = LayerBuilder(image_shape), IMAGE
    for section, (count, channels) in enumerate(zip(SECTIONS[depth], CHANNELS, strict=True), start=1):
        for number in range(1, count + 1):
            x = build.conv_norm_relu(f"section{section}_conv{number}", x, scaled(channels, width))
        x = build.pool(f"section{section}_pool", "max_pool", x)
    build.linear("head", build.flatten("features", x), num_classes)
    return build.layers

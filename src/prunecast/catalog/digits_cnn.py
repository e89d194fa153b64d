"""A small convolutional family for the embedded 8x8 digits, fast enough for a whole study on one core."""

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled

CHANNELS = (8, 16)


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
        x = build.conv_norm_relu(f"conv{number}", x, scaled(CHANNELS[number > first], width))
    build.linear("head", build.global_average("average", x), num_classes)
    return build.layers

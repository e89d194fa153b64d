"""A small convolutional family for the embedded 8x8 digits, quick enough for a whole study on one core."""

from prunecast.architectures.layer import IMAGE, Layer, Shape
from prunecast.architectures.sketch import Sketch, scaled

CHANNELS = (8, 16)


def digits_cnn(depth: int, width: float, num_classes: int, image_shape: Shape) -> tuple[Layer, ...]:
    """Return depth − 1 convolutions of 3x3 in two sections of 8 and 16 channels, and a linear head.

    2x2 max pooling stands between the sections, a global average before the head; where depth − 1
    is odd the second section has the one more.
    """
    convolutions = depth - 1
    first = convolutions // 2
    sketch, x = Sketch(image_shape), IMAGE
    for number in range(1, convolutions + 1):
        if number == first + 1:
            x = sketch.pool("pool", "max_pool", x)
        x = sketch.conv_norm_relu(f"conv{number}", x, scaled(CHANNELS[number > first], width))
    sketch.linear("head", sketch.global_average("average", x), num_classes)
    return sketch.layers

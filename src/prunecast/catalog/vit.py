"""Vision transformers in their plain form: patches, blocks of attention and two linear layers, a mean over the patches.

Norms come before attention and linear layers. Positions are fixed sines and cosines, so that all that is stored are
weights, biases and norms. Depth counts blocks.
"""

from collections.abc import Callable

from prunecast.catalog.layers import IMAGE, Layer, LayerBuilder, Shape, scaled

HEADS = 3
HEAD_CHANNELS = 64
"""Channels of a head at width 1, so that there are 192 in all."""
MLP = 4
"""Channels between the two linear layers of a block, as a multiple of the others."""
PATCH_SIZES = (2, 4, 8, 14, 16, 32)
"""The patch sizes that have a family, `vit_patch4` for 4."""


def vit(patch_size: int) -> Callable[[int, float, int, Shape], tuple[Layer, ...]]:
    """The layers of a ViT with square patches of so many pixels."""

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

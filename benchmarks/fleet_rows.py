"""The networks that are timed: families, sizes of images, recipes, and what each needs at least."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import nn

from prunecast.catalog import Layer, Shape, architecture
from prunecast.families import build, multiply_adds


@dataclass(frozen=True, kw_only=True)
class Row:
    """A family at one depth, on images of one shape."""

    family: str
    depth: int
    image_shape: Shape = (3, 32, 32)
    classes: int = 10
    examples: int = 50_000
    networks: int = 16
    """Networks of width 1 in a fleet; of narrower ones as many as have the same channels in total."""
    recipe: dict[str, Any] = field(default_factory=dict)

    def network(self, width: float) -> nn.Module:
        """A network to look at."""
        return build(
            self.family,
            depth=self.depth,
            width=width,
            num_classes=self.classes,
            generator=torch.Generator().manual_seed(1),
            image_shape=self.image_shape,
        )

    def needs(self, width: float) -> tuple[int, int]:
        """Multiply-adds, and values read and written, of one image in a training step."""
        if ":" in self.family:
            return _counted(self, width)
        layers = architecture(
            self.family,
            depth=self.depth,
            width=width,
            num_classes=self.classes,
            image_shape=self.image_shape,
        ).layers
        return sum(layer.multiply_adds for layer in layers), sum(map(values_moved, layers))


MODERN = {"optimizer": "adamw", "learning_rate": 1e-3, "weight_decay": 0.05, "schedule": "cosine"}
MODERN |= {"label_smoothing": 0.1, "gradient_clip": 1.0, "weight_decay_on": "weights", "warmup": 0.5}
ROWS = {
    "resnet": Row(family="cifar_resnet", depth=20),
    "vgg": Row(family="vgg", depth=16, networks=8),
    "resnet18": Row(
        family="tinyimagenet_resnet",
        depth=18,
        image_shape=(3, 64, 64),
        classes=200,
        examples=100_000,
        networks=8,
    ),
    "densenet": Row(family="densenet", depth=121, networks=2),
    "vit": Row(family="vit_patch4", depth=6, recipe=MODERN),
    "depthwise": Row(family="fleet_rows:depthwise", depth=6, examples=25_000, networks=8),
}
ALL = (
    *("1@8x2", "1/4@8x2", "1/16@8x2", "2@2x6", "4@4x6"),
    *("vgg:1", "vgg:1/4", "resnet18:1", "resnet18:1/4", "densenet:1/4", "vit:1", "depthwise:1"),
)
"""Every row of the table in the docs."""


def values_moved(layer: Layer) -> int:
    """Values read and written per image with every elementwise chain in one kernel.

    A convolution: inputs and outputs once forward; backward the output's gradient twice, the inputs once, their
    gradient once. A norm: two reads and a write forward; backward two reads of input and gradient and a write. An
    addition: one read more each way. ReLU rides along.
    """
    inputs, outputs = prod(layer.in_shape), prod(layer.out_shape)
    if layer.kind == "conv":
        return 3 * inputs + 3 * outputs
    return {"norm": 8 * outputs, "add": 2 * outputs}.get(layer.kind, 0)


def _counted(row: Row, width: float) -> tuple[int, int]:
    """The same for a network that no catalog has, from its modules as they run."""
    network, moved = row.network(width), [0]

    def count(module: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        read, written = inputs[0][0].numel(), output[0].numel()
        moved[0] += 3 * (read + written) if isinstance(module, nn.Conv2d) else 8 * written

    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d):
            module.register_forward_hook(count)
    network.eval()(torch.zeros(1, *row.image_shape))
    values = moved[0]
    return multiply_adds(network, row.image_shape), values


def depthwise(depth: int, width: float, num_classes: int) -> nn.Module:
    """A network like MobileNet: so many depthwise convolutions, each with a pointwise one, down to 4x4 pixels."""
    channels = max(8, round(32 * width))
    layers: list[nn.Module] = [nn.Conv2d(3, channels, 3, padding=1, bias=False)]
    layers += [nn.BatchNorm2d(channels), nn.ReLU()]
    for block in range(depth):
        stride = 2 if block % 2 else 1
        following = channels * stride
        layers += [nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False)]
        layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, following, 1, bias=False)]
        layers += [nn.BatchNorm2d(following), nn.ReLU()]
        channels = following
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))

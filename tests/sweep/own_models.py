"""A user's own networks, which plans in the tests name `own_models:...`."""

import itertools

import torch
from torch import Tensor, nn


class Stock(nn.Module):
    """Torch's own encoder layer with dropout, and a group norm."""

    def __init__(self, depth: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(1, channels, 4, stride=4), nn.GroupNorm(2, channels))
        layer = nn.TransformerEncoderLayer(channels, 2, 2 * channels, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.patches(image).flatten(2).transpose(1, 2)
        return self.head(self.encoder(tokens).mean(dim=1))


def stock(depth: int, width: float, num_classes: int) -> nn.Module:
    return Stock(depth, 2 * max(1, round(4 * width)), num_classes)


def kept(depth: int, width: float, num_classes: int) -> nn.Module:
    return stock(depth, width, num_classes)


kept.own_init = True  # type: ignore[attr-defined]


class Choosy(nn.Module):
    """Computes something that depends on the values of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return -x if x.sum() > 0 else x


def choosy(depth: int, width: float, num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), Choosy(), nn.Linear(8, num_classes))


def of_one_size(num_classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(image_shape).numel(), num_classes))


def of_the_moment(depth: int, width: float, num_classes: int) -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
    nn.init.constant_(model[1].bias, next(MOMENTS))
    return model


MOMENTS = itertools.count(1.0)


def shallow(depth: int, width: float, num_classes: int) -> nn.Module:
    if depth > 4:
        raise ValueError("at most 4 layers")
    return nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))


def for_other_images(depth: int, width: float, num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, num_classes))

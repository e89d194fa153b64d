"""Networks of a user's own, which plans in the tests name `own_networks:weak_branch` and `own_networks:vit`."""

import math

import torch
from torch import Tensor, nn


class WeakBranch(nn.Module):
    """A hidden layer with a branch beside it, whose weights are so small that pruning takes them first."""

    def __init__(self, hidden: int, num_classes: int) -> None:
        super().__init__()
        self.flatten = nn.Flatten()
        self.body = nn.Linear(64, hidden)
        self.branch = nn.Linear(hidden, 4)
        self.head = nn.Linear(hidden + 4, num_classes)
        nn.init.uniform_(self.branch.weight, 1e-6, 2e-6)

    def forward(self, image: Tensor) -> Tensor:
        hidden = torch.relu(self.body(self.flatten(image)))
        return self.head(torch.cat([hidden, self.branch(hidden).detach()], dim=1))


def weak_branch(depth: int, width: float, num_classes: int) -> nn.Module:
    return WeakBranch(round(16 * width), num_classes)


weak_branch.own_init = True  # type: ignore[attr-defined]


class Vit(nn.Module):
    """A small vision transformer for images of 8×8 grey pixels, out of torch's own encoder layers."""

    def __init__(self, depth: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, channels, 2, stride=2)
        self.positions = nn.Parameter(torch.randn(1, 16, channels) / 8)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(channels, 2, 2 * channels, dropout=0.0, batch_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(channels, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.patches(image).flatten(2).transpose(1, 2) + self.positions
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(tokens.mean(dim=1))


def vit(depth: int, width: float, num_classes: int) -> nn.Module:
    return Vit(depth, round(8 * width), num_classes)


class Fixed(nn.Module):
    """It asks for the length of a batch, which a trace of calls fixes, and reads tensors of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = self.first = nn.Linear(64, 64)
        self.unused = nn.Linear(2, 2)
        self.head = nn.ModuleList([nn.Linear(64, 10)])
        self.start = nn.Parameter(torch.randn(1, 64))
        self.register_buffer("table", torch.randn(64, 64), persistent=False)
        self.factor = torch.tensor([2.0])

    def forward(self, image: Tensor) -> Tensor:
        first = self.first(image.flatten(1)) + self.start.repeat(len(image), 1) * self.factor
        return self.head[0](self.shared(first) @ self.table)


class OneByOne(nn.Module):
    """It goes through the images of a batch, so that it is traced for one image."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        return torch.stack([self.head(image.flatten()) for image in images])


class Encoder(nn.Module):
    """Torch's stack of encoder layers, with a norm after it, and attention of its own."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, 0.2, "gelu", batch_first=True, norm_first=True)
        self.patches = nn.Conv2d(1, 8, 2, 2)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False)
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
        self.head = nn.Linear(8, 10)

    def forward(self, image: Tensor) -> Tensor:
        tokens = self.encoder(self.patches(image).flatten(2).transpose(1, 2))
        return self.head(self.attention(tokens, tokens, tokens, need_weights=False)[0].mean(dim=1))


def channels(depth: int, width: int, num_classes: int, image_shape: tuple[int, int, int]) -> nn.Module:
    """A network whose width is its number of channels."""
    inputs, height, _ = image_shape
    return nn.Sequential(nn.Conv2d(inputs, width, height), nn.Flatten(), nn.Linear(width, num_classes))


class Hidden(nn.Module):
    """Layers with settings that their representation does not show, and functions."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding="same", padding_mode="circular")
        self.pool = nn.AvgPool2d(3, 2, 1, count_include_pad=False)
        self.head = nn.Linear(64, 10)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(nn.functional.gelu(self.pool(self.conv(image)), approximate="tanh").flatten(1))


class Reshaping(nn.Module):
    """It reads the length of a batch from its shape, as most networks do, and uses it for a token of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.head = nn.Linear(72, 10)

    def forward(self, image: Tensor) -> Tensor:
        rows = torch.cat([self.start.expand(image.shape[0], -1, -1), image.squeeze(1)], dim=1)
        return self.head(rows.reshape(rows.shape[0], -1))


class Branching(nn.Module):
    """It branches on the values of an image."""

    def __init__(self, depth: int, num_classes: int, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        self.head = nn.Linear(math.prod(image_shape), num_classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(image.flatten(1)) if image.mean() > 0 else self.head(-image.flatten(1))

"""Networks of a user's own, which plans in the tests name `own_networks:weak_branch` and `own_networks:vit`."""

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

"""Networks as users write them, for `soak.py`: a vision transformer of torch's own layers."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows it by


class Block(nn.Module):
    """Attention and two linear layers, each with a norm before it."""

    def __init__(self, channels: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add what attention and the linear layers find."""
        parts = self.qkv(self.norm1(x)).chunk(3, 2)
        q, k, v = (torch.unflatten(part, 2, (self.heads, -1)).transpose(1, 2) for part in parts)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        mixed: Tensor = x + self.mlp(self.norm2(x))
        return mixed


class Transformer(nn.Module):
    """A ViT on patches of 4x4 pixels with learned positions."""

    def __init__(self, depth: int, channels: int, num_classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, channels, 4, 4)
        self.positions = nn.Parameter(torch.zeros(1, 64, channels))
        self.blocks = nn.Sequential(*(Block(channels, 3) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(channels), nn.Linear(channels, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return a score for each class."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        scores: Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return scores


def transformer(depth: int, width: float, num_classes: int) -> nn.Module:
    """192 channels at width 1."""
    return Transformer(depth, 3 * round(64 * width), num_classes)

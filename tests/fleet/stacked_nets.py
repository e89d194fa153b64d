"""Networks that the packer stacks: transformers as users write them, other norms, dropout in all its forms."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


def size(count: int, width: float) -> int:
    return count * max(1, round(2 * width))


class Encoder(nn.Module):
    """torch's own encoder layers on patches, a class token, learned positions, dropout where torch has it."""

    def __init__(self, width, classes=10, *, channels=3, patch=4, image=8, dropout=0.0, norm_first=True):
        super().__init__()
        wide = size(8, width)
        self.patches = nn.Conv2d(channels, wide, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, wide))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, wide))
        self.dropout = nn.Dropout(dropout)
        layer = nn.TransformerEncoderLayer(
            wide, 2, 2 * wide, dropout, "gelu", batch_first=True, norm_first=norm_first
        )
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(wide)
        self.head = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], dim=1) + self.positions
        return self.head(self.dropout(self.norm(self.blocks(self.dropout(x)))[:, 0]))


class Written(nn.Module):
    """Attention written with a matrix for queries, keys and values, root-mean-square norms, a learned scale."""

    def __init__(self, width, classes=10):
        super().__init__()
        wide = size(8, width)
        self.patches = nn.Conv2d(3, wide, 2, 2, bias=False)
        self.norm = nn.RMSNorm(wide)
        self.qkv, self.out = nn.Linear(wide, 3 * wide, bias=False), nn.Linear(wide, wide)
        self.scale = nn.Parameter(torch.ones(wide))
        self.register_buffer("shift", torch.linspace(0, 1, 16).view(16, 1), persistent=False)
        self.head = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).mT + self.shift
        q, k, v = (part.unflatten(2, (2, -1)).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, 2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.scale * self.out(mixed.transpose(1, 2).flatten(2))
        return self.head(F.gelu(x).mean(1))


class Attentive(nn.Module):
    """nn.MultiheadAttention over the rows of an image, not batch first, with its weights asked for."""

    def __init__(self, width, classes=10, *, dropout=0.0):
        super().__init__()
        wide = size(8, width)
        self.rows = nn.Linear(24, wide)
        self.attention = nn.MultiheadAttention(wide, 2, dropout=dropout)
        self.head = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.rows(x.transpose(1, 2).flatten(2)).transpose(0, 1)
        mixed, shares = self.attention(x, x, x)
        return self.head((x + mixed * shares.mean()).mean(0))


class Grouped(nn.Module):
    """Group, layer and batch norms around convolutions that overlap, with channels that drop out."""

    def __init__(self, width, classes=10, *, dropout=0.0):
        super().__init__()
        wide = size(4, width)
        self.first, self.groups = nn.Conv2d(3, wide, 3, padding=1), nn.GroupNorm(2, wide)
        self.drop = nn.Dropout2d(dropout)
        self.second, self.batch = nn.Conv2d(wide, wide, 3, stride=2, groups=wide), nn.BatchNorm2d(wide)
        self.rows = nn.LayerNorm(3)
        self.head = nn.Linear(wide, classes)

    def forward(self, x):
        x = self.drop(F.gelu(self.groups(self.first(x))))
        x = self.rows(self.batch(self.second(x)))
        return self.head(x.mean((2, 3)))


def digits_encoder(depth, width, num_classes, image_shape):
    """A family for digits, with torch's usual dropout."""
    return Encoder(width, num_classes, channels=1, patch=4, image=8, dropout=0.1)


def digits_attention(depth, width, num_classes, image_shape):
    """A family for digits without noise."""
    return Encoder(width, num_classes, channels=1, patch=2, image=8, norm_first=False)

"""Small networks with every structure that packs support, as functions of a width, and some that packs refuse."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


def channels(count: int, width: float) -> int:
    return max(1, round(count * width))


class Residual(nn.Module):
    """Additions, a shortcut with batch norm, the tensor method for ReLU, a mean over space."""

    def __init__(self, width: float, classes: int = 10) -> None:
        super().__init__()
        a, b = channels(8, width), channels(16, width)
        self.stem, self.stem_norm = nn.Conv2d(3, a, 3, padding=1, bias=False), nn.BatchNorm2d(a)
        self.conv1, self.norm1 = nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(b)
        self.conv2, self.norm2 = nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b)
        self.short, self.short_norm = nn.Conv2d(a, b, 1, stride=2, bias=False), nn.BatchNorm2d(b)
        self.head = nn.Linear(b, classes)

    def forward(self, x):
        x = self.stem_norm(self.stem(x)).relu()
        y = F.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y)) + self.short_norm(self.short(x))
        return self.head(torch.relu(y).mean(dim=(2, 3)))


class Stacked(nn.Module):
    """A plain stack with pooling, biases, a flattened image, two linear layers and batch norm on features."""

    def __init__(self, width: float, classes: int = 10) -> None:
        super().__init__()
        a, b, c = channels(6, width), channels(10, width), channels(20, width)
        self.body = nn.Sequential(
            nn.Conv2d(3, a, 3, padding=1), nn.BatchNorm2d(a), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True), nn.AvgPool2d(2), nn.Dropout(0.0),
        )  # fmt: skip
        self.neck = nn.Sequential(nn.Linear(4 * b, c, bias=False), nn.BatchNorm1d(c), nn.LeakyReLU(0.1))
        self.head = nn.Linear(c, classes)

    def forward(self, x):
        x = self.body(x)
        return self.head(self.neck(x.view(x.size(0), -1)))


class Concatenated(nn.Module):
    """Dense connections twice over, so that owners interleave, and a flattening of what is interleaved."""

    def __init__(self, width: float, classes: int = 10) -> None:
        super().__init__()
        g = channels(4, width)
        self.stem = nn.Conv2d(3, 2 * g, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(2 * g), nn.BatchNorm2d(3 * g), nn.BatchNorm2d(4 * g)])
        self.convs = nn.ModuleList([nn.Conv2d(2 * g, g, 3, padding=1), nn.Conv2d(3 * g, g, 3, padding=1)])
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(16 * g, classes)

    def forward(self, x):
        x = self.stem(x)
        for norm, conv in zip(self.norms, self.convs):  # noqa: B905 - the last norm stands alone
            x = torch.cat([x, conv(F.relu(norm(x)))], dim=1)
        x = F.relu(self.norms[2](x))
        return self.head(torch.flatten(F.max_pool2d(self.pool(x), 1), 1))


class Grouped(nn.Module):
    """Depthwise (used twice) and grouped convolutions, a gate, class scores from a convolution."""

    def __init__(self, width: float, classes: int = 10) -> None:
        super().__init__()
        a = 2 * channels(6, width)
        self.stem = nn.Conv2d(3, a, 3, padding=1)
        self.depthwise = nn.Conv2d(a, a, 3, padding=1, groups=a, bias=False)
        self.halves = nn.Conv2d(a, 2 * a, 1, groups=2)
        self.norm = nn.BatchNorm2d(2 * a, affine=False)
        self.gate = nn.Conv2d(2 * a, 2 * a, 1)
        self.scores = nn.Conv2d(2 * a, classes, 1)

    def forward(self, x):
        x = F.silu(self.depthwise(F.gelu(self.stem(x))))
        x = self.depthwise(x)
        x = self.norm(self.halves(x))
        x = x * torch.sigmoid(self.gate(x.mean((2, 3), keepdim=True)))
        return F.adaptive_avg_pool2d(self.scores(x), 1).squeeze(-1).squeeze(-1)

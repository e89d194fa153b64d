"""Networks of a user's own with channels tied in every way, for images of 3x8x8; and some that cannot be sliced."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class InvertedResidual(nn.Module):
    """A block of MobileNetV2: expand, depthwise, project, and a sum where shapes agree."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        hidden = 2 * inputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.same = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.body(x) if self.same else self.body(x)


def mobilenet():
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.Hardswish()),
        *(InvertedResidual(6, 6, 1), InvertedResidual(6, 8, 2), InvertedResidual(8, 8, 1)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 5)),
    )


def mlp():
    layers = [nn.Flatten(), nn.Linear(192, 12), nn.BatchNorm1d(12), nn.PReLU(12), nn.Linear(12, 9), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(9, 5))


class UNet(nn.Module):
    """Down, up by a transposed convolution and by interpolation to the size of another tensor, concatenations."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 3, padding=1)
        self.bottom = nn.Conv2d(6, 8, 3, padding=1)
        self.up1 = nn.ConvTranspose2d(8, 5, 2, stride=2)
        self.join1 = nn.Conv2d(11, 6, 3, padding=1)
        self.join2 = nn.Conv2d(10, 5, 1)
        self.norm = nn.BatchNorm2d(10)
        self.head = nn.Linear(5 * 4, 5)

    def forward(self, x):
        a = F.relu(self.down1(x))
        b = F.relu(self.down2(F.max_pool2d(a, 2)))
        c = F.relu(self.bottom(F.avg_pool2d(b, 2)))
        d = F.relu(self.join1(torch.cat([self.up1(c), b], 1)))
        up = F.interpolate(d, size=a.shape[-2:], mode="nearest")
        e = F.relu(self.join2(self.norm(torch.cat((a, up), dim=1))))
        e = F.adaptive_avg_pool2d(e, 2)
        return self.head(e.view(e.size(0), -1))


class BasicBlock(nn.Module):
    """As torchvision writes it."""

    def __init__(self, inputs, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU()
        down = nn.Sequential(nn.Conv2d(4, 6, 1, 2, bias=False), nn.BatchNorm2d(6))
        self.layer1, self.layer2 = (
            BasicBlock(4, 4),
            nn.Sequential(BasicBlock(4, 6, 2, down), BasicBlock(6, 6)),
        )
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(6, 5)

    def forward(self, x):
        x = self.layer2(self.layer1(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Squeezed(nn.Module):
    """A gate as in squeeze and excitation, with sizes read off tensors; a module that is called twice."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(6, 3), nn.Linear(3, 6)
        self.twice = nn.Conv2d(6, 6, 3, padding=1)
        self.doubled = nn.Conv2d(6, 12, 3, padding=1, groups=6)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = self.stem(x)
        b, c, _, _ = x.size()
        gate = torch.sigmoid(self.fc2(torch.relu(self.fc1(x.mean((2, 3)))))).view(b, c, 1, 1)
        x = self.twice(F.relu(self.twice(x * gate)))
        return self.head(self.doubled(x).amax(dim=(2, 3)) * 0.5)


class PartlyKept(nn.Module):
    """Layer and group norms, a positional parameter, a grouped convolution and a count keep what they read."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8)
        self.grouped = nn.Conv2d(8, 8, 1, groups=2)
        self.free = nn.Conv2d(8, 6, 3, padding=1)
        self.scaled = nn.Conv2d(6, 4, 1)
        self.shift = nn.Parameter(torch.ones(4))
        self.tokens, self.tokens_norm, self.hidden = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 7)
        self.back, self.head = nn.Linear(7, 4), nn.Linear(4, 5)

    def forward(self, x):
        x = self.free(F.relu(self.grouped(self.norm(self.stem(x)))))
        x = self.scaled(F.relu(x))
        x = x / x.shape[1]
        x = self.tokens(x.flatten(2).transpose(1, 2)) + self.shift
        x = x + self.back(F.gelu(self.hidden(self.tokens_norm(x))))
        return self.head(x.mean(1))


class TokensFirst(nn.Module):
    """Tokens before images in a batch; attention with a mask, whose weights are read, or that is called twice."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 6, 4, 4)
        self.block = nn.TransformerEncoderLayer(6, 2, 10, 0.0, nn.SiLU())
        self.free = nn.MultiheadAttention(6, 3)
        self.tied = nn.MultiheadAttention(6, 6, kdim=6, vdim=6)
        self.read = nn.MultiheadAttention(6, 2)
        self.extended = nn.MultiheadAttention(6, 2, add_bias_kv=True)
        self.across = nn.MultiheadAttention(6, 2)
        self.head = nn.Linear(6, 5)
        self.register_buffer("mask", torch.zeros(4, 4))

    def forward(self, x):
        x = self.block(self.patches(x).flatten(2).permute(2, 0, 1), self.mask)
        x = x + self.free(x, x, x)[0]
        for _ in range(2):
            x = x + self.tied(x, x, x, need_weights=False)[0]
        x = x + self.extended(x, x, x, need_weights=False)[0]
        x = x + self.across(x, x * 2, x, need_weights=False)[0]
        found, weights = self.read(x, x, x)
        return self.head((found * weights.mean()).mean(0))


class OwnBlocks(nn.Module):
    """A block of a transformer as timm writes it: heads are named by number, so only hidden units can go."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 6, 4, 4)
        self.norm1, self.norm2 = nn.LayerNorm(6), nn.LayerNorm(6)
        self.qkv, self.proj = nn.Linear(6, 18), nn.Linear(6, 6)
        self.fc1, self.act, self.fc2 = nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 6)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        batch, tokens, size = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, tokens, 3, 2, size // 2).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
        x = x + self.proj(mixed.transpose(1, 2).reshape(batch, tokens, size))
        x = x + self.fc2(self.act(self.fc1(self.norm2(x))))
        return self.head(x.mean(1))


class Choosy(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(192, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.one(x.flatten(1))
        return self.two(x if x.sum() > 0 else -x)


class NamesItsSize(nn.Module):
    """The number of channels is written down in the forward pass, where only running shows it."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 5)

    def forward(self, x):
        return self.two(self.one(x).view(-1, 256))

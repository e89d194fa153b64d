"""Networks as users bring them, in small, for 8×8 grey images: each a function of depth, width and classes."""

import torch
from torch import Tensor, nn


def _block(inputs: int, outputs: int, stride: int = 1, groups: int = 1, kernel: int = 3) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU6())


class InvertedResidual(nn.Module):
    """Expand, filter each channel, project, and add the input where shapes agree, as MobileNetV2 does."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        inner = 2 * inputs
        self.body = nn.Sequential(
            _block(inputs, inner, kernel=1),
            _block(inner, inner, stride, groups=inner),
            nn.Conv2d(inner, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.adds = stride == 1 and inputs == outputs

    def forward(self, image: Tensor) -> Tensor:
        return image + self.body(image) if self.adds else self.body(image)


def mobilenet(depth: int, width: float, num_classes: int) -> nn.Module:
    channels = round(8 * width)
    blocks = [InvertedResidual(channels, channels, 1) for _ in range(depth)]
    return nn.Sequential(
        _block(1, channels),
        *blocks,
        InvertedResidual(channels, 2 * channels, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(2 * channels, num_classes),
    )


class Mlp(nn.Module):
    """Fully connected layers with functions between them."""

    def __init__(self, depth: int, units: int, num_classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(64, units)
        self.hidden = nn.ModuleList(nn.Linear(units, units) for _ in range(depth - 1))
        self.head = nn.Linear(units, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        units = torch.relu(self.first(image.flatten(1)))
        for layer in self.hidden:
            units = nn.functional.gelu(layer(units))
        return self.head(units)


def mlp(depth: int, width: float, num_classes: int) -> nn.Module:
    return Mlp(depth, round(24 * width), num_classes)


class UNet(nn.Module):
    """A U-Net whose last map is averaged: two scales, a transposed convolution and a concatenation for each."""

    def __init__(self, channels: int, num_classes: int) -> None:
        super().__init__()
        self.down1, self.down2 = _block(1, channels), _block(channels, 2 * channels)
        self.bottom = _block(2 * channels, 2 * channels)
        self.up2 = nn.ConvTranspose2d(2 * channels, 2 * channels, 2, stride=2)
        self.join2 = _block(4 * channels, channels)
        self.up1 = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.join1 = _block(2 * channels, channels)
        self.head = nn.Linear(channels, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        first = self.down1(image)
        second = self.down2(nn.functional.max_pool2d(first, 2))
        bottom = self.bottom(nn.functional.max_pool2d(second, 2))
        second = self.join2(torch.cat([self.up2(bottom), second], dim=1))
        first = self.join1(torch.cat([self.up1(second), first], dim=1))
        return self.head(first.mean(dim=(2, 3)))


def unet(depth: int, width: float, num_classes: int) -> nn.Module:
    return UNet(round(4 * width), num_classes)


class BasicBlock(nn.Module):
    """The block of torchvision's ResNet-18, with its names."""

    def __init__(self, inplanes: int, planes: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes)
            )

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """torchvision's ResNet with two stages."""

    def __init__(self, layers: int, planes: int, num_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, planes, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Sequential(*(BasicBlock(planes, planes) for _ in range(layers)))
        self.layer2 = nn.Sequential(
            BasicBlock(planes, 2 * planes, 2),
            *(BasicBlock(2 * planes, 2 * planes) for _ in range(layers - 1)),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(2 * planes, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.avgpool(self.layer2(self.layer1(x)))
        return self.fc(torch.flatten(x, 1))


def resnet(depth: int, width: float, num_classes: int) -> nn.Module:
    return ResNet(depth, round(4 * width), num_classes)

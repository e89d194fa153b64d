"""Families of a user: one mixes channels, some draw noise, one depends on its values, one has its own weights."""

import threading

import numpy as np
import torch
from torch import nn

from prunecast.training import Loss, Optimizer


def normalised_by_groups(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * channels, num_classes))


def with_dropout(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3)]
    return nn.Sequential(*body, nn.Linear(64 * channels, num_classes))


class Choosy(nn.Conv2d):
    """Looks at its values, so that no pack can hold it."""

    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


def choosy(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [Choosy(1, channels, 3, padding=1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(64 * channels, num_classes))


class Unnoticed(nn.Linear):
    """Dropout as a function, which no pack can give noise of its own."""

    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.3, self.training))


def with_unnoticed_dropout(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, Unnoticed(64 * channels, num_classes))


def disturbed(depth, width, num_classes):
    """Draws its own weights while another thread begins a stretch of another training."""
    threads = [threading.Thread(target=other) for other in OTHERS]
    for thread in threads:
        thread.start()
        thread.join(0.1)  # waits for its turn, or has moved the generator
    return nn.Linear(3, num_classes)


disturbed.own_init = True


class Projected(nn.Module):
    """A fixed random projection, drawn anew for every network, before layers with weights and scales of their own."""

    def __init__(self, channels, num_classes):
        super().__init__()
        self.register_buffer("projection", torch.randn(64, 32) / 8)
        self.register_buffer("shift", torch.randn(32), persistent=False)
        self.hidden = nn.Linear(32, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))
        self.head = nn.Linear(channels, num_classes)
        nn.init.trunc_normal_(self.hidden.weight, std=0.2)
        with torch.no_grad():
            self.hidden.bias.copy_(torch.from_numpy(np.random.normal(size=channels)))  # noqa: NPY002

    def forward(self, images):
        features = images.flatten(1) @ self.projection + self.shift
        return self.head(torch.relu(self.hidden(features)) * self.scale)


def projected(depth, width, num_classes):
    return Projected(max(2, 2 * round(8 * width)), num_classes)


class Centred(nn.Module):
    """Subtracts an average over its inputs so far, which it replaces in every step or changes in place."""

    def __init__(self, channels, in_place):
        super().__init__()
        self.in_place = in_place
        self.register_buffer("centre", torch.zeros(channels))

    def forward(self, x):
        if self.training:
            mean = x.detach().mean((0, 2, 3))
            if self.in_place:
                self.centre.lerp_(mean, 0.1)
            else:
                self.centre = self.centre.lerp(mean, 0.1)
        return x - self.centre.view(-1, 1, 1)


def centred(depth, width, num_classes, in_place=False):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), Centred(channels, in_place), nn.ReLU(), nn.Flatten()]
    return nn.Sequential(*body, nn.Linear(64 * channels, num_classes))


OTHERS = []


def normalised_step(recipe, parameters, gradients, state, rate):
    """Gradient descent with a step as long as the learning rate, whatever the gradient's length in a tensor."""
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.sub_(gradient * rate / (gradient.norm() + 1e-9))


NORMALISED = Optimizer(name="normalised", step=normalised_step)


def squares(logits, labels):
    """The squared distance of every example's probabilities from its label."""
    return (logits.softmax(1) - nn.functional.one_hot(labels, logits.shape[1])).square().sum(1)


SQUARED = Loss(name="squared", mean=lambda logits, labels: squares(logits, labels).mean(), each=squares)


class _Inverted(nn.Module):
    """Widens, convolves every channel alone, narrows, and adds; then joins what came in."""

    def __init__(self, channels):
        super().__init__()
        inner = 2 * channels
        self.body = nn.Sequential(
            *(nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU()),
            *(
                nn.Conv2d(inner, inner, 3, padding=1, groups=inner, bias=False),
                nn.BatchNorm2d(inner),
                nn.ReLU(),
            ),
            *(nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels)),
        )
        self.join = nn.Conv2d(2 * channels, channels, 1)

    def forward(self, x):
        return self.join(torch.cat([x, x + self.body(x)], 1))


def inverted(depth, width, num_classes):
    channels = round(6 * width)
    blocks = [_Inverted(channels) for _ in range(depth)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes)]
    return nn.Sequential(nn.Conv2d(1, channels, 3, padding=1), *blocks, *head)

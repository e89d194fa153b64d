"""A user's own families, imported by the tests as `own_family:name`."""

import random

import numpy as np
import torch
from torch import nn


def plain(depth, width, num_classes):
    layers = [nn.Conv2d(1, max(1, round(8 * width)), 3, bias=True), nn.ReLU()]
    channels = layers[0].out_channels
    for _ in range(depth - 2):
        layers += [nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * 36, num_classes)).double()


class Tied(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
        self.two.weight = self.one.weight
        self.head = nn.Linear(4, num_classes)


def tied(depth, width, num_classes):
    return Tied(num_classes)


def chosen(depth, width, num_classes):
    model = Tied(num_classes)
    model.prunable_weights = ("head.weight",)
    return model


def misnamed(depth, width, num_classes):
    model = Tied(num_classes)
    model.prunable_weights = ("tail.weight",)
    return model


def own(depth, width, num_classes):
    model = nn.Linear(3, num_classes)
    nn.init.normal_(model.weight)
    nn.init.constant_(model.bias, 7.0)
    return model


own.own_init = True


def of_numpy(depth, width, num_classes):
    model = nn.Linear(3, num_classes)
    with torch.no_grad():
        model.weight.copy_(torch.from_numpy(np.random.normal(size=model.weight.shape)))  # noqa: NPY002
        model.bias.fill_(random.random())
    return model


def of_the_moment(depth, width, num_classes):
    model = nn.Linear(3, num_classes)
    with torch.no_grad():
        model.bias.copy_(torch.from_numpy(np.random.default_rng().normal(size=num_classes)))
    return model


def of_a_coin(depth, width, num_classes):
    """Has a layer more at every other call."""
    of_a_coin.calls = getattr(of_a_coin, "calls", 0) + 1
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))
    if of_a_coin.calls % 2:
        model.spare = nn.Linear(2, 2)
    return model


def weightless(depth, width, num_classes):
    return nn.ReLU()


def no_module(depth, width, num_classes):
    return torch.zeros(3)


def wrong_signature(depth, size):
    return nn.Linear(1, 1)


def broken(depth, width, num_classes):
    return nn.Linear(depth // 0, num_classes)


def of_one_size(num_classes, image_shape):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(image_shape[0] * image_shape[1] * image_shape[2], num_classes)
    )


def lazy(depth, width, num_classes):
    layers = [nn.LazyConv2d(round(8 * width), 3), nn.LazyBatchNorm2d(), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(num_classes))


def lazy_for_tokens(depth, width, num_classes):
    return nn.Sequential(nn.LazyLinear(4), nn.Flatten(), nn.Linear(999, num_classes))

"""A user's family that mixes channels in a way the packer does not know."""

from torch import nn


def normalised_by_groups(depth, width, num_classes):
    channels = max(2, 2 * round(4 * width))
    body = [nn.Conv2d(1, channels, 3, padding=1), nn.GroupNorm(2, channels), nn.ReLU()]
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(64 * channels, num_classes))

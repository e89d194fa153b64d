"""A family of your own: fully connected networks for the digits, `depth` layers of 64 · `width` units.

A plan names it as `family = "mlp_family:mlp"`.
"""

from itertools import pairwise

from torch import nn


def mlp(depth, width, num_classes):
    """Return an untrained network; prunecast draws its weights anew unless the recipe keeps them."""
    hidden = max(1, round(64 * width))
    sizes = [64, *[hidden] * (depth - 1), num_classes]
    layers = [nn.Flatten()]
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])

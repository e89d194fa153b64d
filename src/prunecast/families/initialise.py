"""He uniform initialisation, drawn from one generator in module order."""

from math import prod, sqrt

import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

Weighted = (_ConvNd, nn.Linear)
"""The modules whose weight is prunable and drawn anew."""
Normalising = (_NormBase, nn.LayerNorm, nn.GroupNorm)


@torch.no_grad()
def initialise(model: nn.Module, generator: torch.Generator) -> None:
    """Draw convolution and linear weights from U(−b, b), b = √2·√(3 / fan-in); biases 0, norms 1 and 0."""
    for module in model.modules():
        if isinstance(module, Weighted):
            bound = sqrt(6 / _fan_in(module))
            module.weight.uniform_(-bound, bound, generator=generator)
        if isinstance(module, Normalising) and getattr(module, "weight", None) is not None:
            nn.init.ones_(module.weight)
        if isinstance(module, Weighted + Normalising) and getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        if isinstance(module, _NormBase):
            module.reset_running_stats()


def _fan_in(module: nn.Module) -> int:
    """Return how many inputs meet in one output: input channels of a group × kernel positions."""
    if isinstance(module, _ConvNd):
        if isinstance(module, _ConvTransposeNd):
            return module.in_channels // module.groups * prod(module.kernel_size)
        return int(module.weight[0].numel())
    assert isinstance(module, nn.Linear)
    return module.in_features

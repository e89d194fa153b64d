"""Whether a network draws random numbers of its own, as dropout does.

They come from torch's own generator, which all threads share: what one network draws would depend on who trains beside
it. Such a network is left to the plain loop.
"""

import copy
from collections.abc import Sequence

import torch
from torch import nn

from prunecast.spec import TORCH_GENERATOR


@torch.no_grad()
def draws_noise(model: nn.Module, image_shape: Sequence[int]) -> bool:
    """Run a copy once and look whether the generator has moved; who cannot be run counts as well."""
    ghost = copy.deepcopy(model).train()
    images = torch.zeros(2, *image_shape, dtype=next(model.parameters()).dtype)
    with TORCH_GENERATOR, torch.random.fork_rng(devices=[]):
        before = torch.get_rng_state()
        try:
            ghost(images)
        except Exception:
            return True
        return not torch.equal(before, torch.get_rng_state())

"""Training alone and training packed, written out simply, for comparison."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from prunecast.fleet.pack import Pack

CLASSES = 10


def randomised(model: nn.Module, seed: int) -> nn.Module:
    """Every parameter and statistic away from the value it starts with, so that nothing agrees by chance."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
                tensor.copy_(noise.abs() + 0.5 if "running_var" in name else 0.3 * noise)
            else:
                tensor.fill_(seed)
    return model.double()


def prune_randomly(model: nn.Module, seed: int, density: float = 0.6) -> dict[str, torch.Tensor]:
    """Masks for every convolution and linear weight."""
    generator = torch.Generator().manual_seed(1000 + seed)
    return {
        f"{name}.weight": torch.rand(module.weight.shape, generator=generator) < density
        for name, module in model.named_modules()
        if isinstance(module, nn.Conv2d | nn.Linear)
    }


def batches(seed: int, *, steps: int, batch: int, size: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """A member's own order and its own flips and shifts of a data set that all members share."""
    shared = np.random.default_rng(0)
    images, labels = shared.normal(size=(64, 3, size + 2, size + 2)), shared.integers(0, CLASSES, 64)
    own = np.random.default_rng([7, seed])
    made = []
    for _ in range(steps):
        chosen, flips, shifts = (
            own.permutation(64)[:batch],
            own.random(batch) < 0.5,
            own.integers(0, 3, (batch, 2)),
        )
        crops = [images[i, :, y : y + size, x : x + size] for i, (y, x) in zip(chosen, shifts, strict=True)]
        crops = [crop[:, :, ::-1] if flip else crop for crop, flip in zip(crops, flips, strict=True)]
        made.append((torch.from_numpy(np.stack(crops)), torch.from_numpy(labels[chosen])))
    return made


def masked(parameters, masks) -> None:
    with torch.no_grad():
        for name, parameter in parameters:
            if name in masks:
                parameter.mul_(masks[name])


def optimizer_of(parameters) -> torch.optim.SGD:
    return torch.optim.SGD(list(parameters), lr=0.05, momentum=0.9, weight_decay=1e-2)


def train_alone(model: nn.Module, masks, data) -> dict[str, dict[str, torch.Tensor]]:
    model.train()
    masked(model.named_parameters(), masks)
    optimizer = optimizer_of(model.parameters())
    for images, labels in data:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
        masked(model.named_parameters(), masks)
    return {"state": model.state_dict(), "momenta": _momenta(model.named_parameters(), optimizer)}


def train_packed(pack, data) -> dict[str, torch.Tensor]:
    """Train all slots on (slots, batch, ...) steps; gives the momenta."""
    pack.module.train()
    optimizer = optimizer_of(pack.parameters().values())
    for images, labels in data:
        optimizer.zero_grad()
        scores = pack.module(pack.join(images))
        (F.cross_entropy(scores.transpose(0, 1).flatten(0, 1), labels.flatten()) * pack.slots).backward()
        optimizer.step()
        masked(pack.parameters().items(), pack.masks)
    return _momenta(pack.parameters().items(), optimizer)


def _momenta(named, optimizer) -> dict[str, torch.Tensor]:
    return {name: optimizer.state[parameter]["momentum_buffer"] for name, parameter in named}


def taken_out(packed: Pack, slot: int, batches: int = 0) -> dict[str, torch.Tensor]:
    """A member's own state dict, after it has trained on so many batches in its slot."""
    counts = {name: count + batches for name, count in packed.batch_counts[slot].items()}
    return packed.layout.read(packed.tensors(), slot) | counts

"""Packs that train on noise with fused steps, with their kernels on the CPU."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from cuda_on_cpu import HostKernels
from torch import Tensor, nn

from prunecast.data import MemorySource
from prunecast.families import build
from prunecast.fleet.kernels import FusedStep, fused_step
from prunecast.fleet.pack import Pack, pack
from prunecast.fleet.step import PackTrainer, pack_trainer, reset
from prunecast.spec import Recipe

RECIPE = Recipe(
    name="noise", epochs=1, learning_rate=0.1, batch_size=3, augmentation="flip-shift", precision="bf16"
)
MIXED, NARROW = (1.0, 0.5, 0.25), (0.25,) * 8
ROUNDING = 0.003
"""How far a tensor in bfloat16 may be off, over its norm: a rounding makes 0.0017."""


def compile_for_cpu(source: str, macros: Mapping[str, int]) -> HostKernels:
    return _compiled(source, tuple(sorted(macros.items())))


@cache
def _compiled(source: str, macros: tuple[tuple[str, int], ...]) -> HostKernels:
    return HostKernels(source, dict(macros))


def resnets(widths: Sequence[float], *, size: int = 32) -> list[nn.Module]:
    return [
        build("cifar_resnet", depth=8, width=width, num_classes=10, image_shape=(3, size, size), generator=g)
        for number, width in enumerate(widths)
        for g in (torch.Generator().manual_seed(number),)
    ]


def uneven(networks: Sequence[nn.Module]) -> Sequence[nn.Module]:
    """The networks with norms and statistics that are not those of a fresh one."""
    torch.manual_seed(1)
    for network in networks:
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, 0, 0.3)
                nn.init.normal_(module.running_mean, 0, 0.1)
                nn.init.uniform_(module.running_var, 0.5, 1.5)
    return networks


def packed(networks: Sequence[nn.Module], *, size: int, group: int | None = 16, dense: float = 0.7) -> Pack:
    """The networks in a pack as fleets lay it out, with a part of each weight pruned."""
    own = pack(
        list(networks), image_shape=(3, size, size), smallest_group=group, memory_format=torch.channels_last
    )
    generator = torch.Generator().manual_seed(2)
    for slot, network in enumerate(networks):
        masks = {
            name: (
                torch.rand(tensor.shape, generator=generator) < (dense if tensor.ndim == 4 else 1.1)
            ).float()
            for name, tensor in network.named_parameters()
        }
        state = {
            name: tensor * masks[name] if name in masks else tensor
            for name, tensor in network.state_dict().items()
        }
        own.load(slot, state, masks)
    return own


def noise(count: int, *, size: int, seed: int = 0, classes: int = 7) -> MemorySource:
    """Images of classes that differ in their mean."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    images = (
        torch.randint(0, 160, (count, size, size, 3), generator=generator) + 12 * labels[:, None, None, None]
    )
    return MemorySource(
        images.to(torch.uint8),
        labels,
        mean=torch.tensor([110.0, 118.0, 120.0]),
        std=torch.tensor([60.0, 61.0, 62.0]),
    )


def trainer_of(pack: Pack, source: MemorySource, *, recipe: Recipe = RECIPE, steps: int = 3) -> PackTrainer:
    """A pack at its first step, with every slot's own order and augmentation."""
    own = pack_trainer(pack, recipe, source, batch=recipe.batch_size, epoch=steps)
    generator = torch.Generator().manual_seed(3)
    own.order.copy_(torch.randint(0, len(source), own.order.shape, generator=generator))
    if own.draws is not None and own.draws.flip is not None and own.draws.shift is not None:
        own.draws.flip.copy_(torch.rand(own.draws.flip.shape, generator=generator) < 0.5)
        own.draws.shift.copy_(torch.randint(-3, 4, own.draws.shift.shape, generator=generator))
    own.rates.fill_(0.05)
    reset(own)
    return own


def ready(widths: Sequence[float] = MIXED, *, batch: int = 3, **changes: Any) -> PackTrainer:
    recipe = replace(RECIPE, batch_size=batch, **changes)
    return trainer_of(packed(uneven(resnets(widths)), size=32), noise(20, size=32), recipe=recipe)


def fused(own: PackTrainer, *, packs: int = 6) -> FusedStep:
    return fused_step(own, compile_for_cpu, packs)


def relative(ours: Tensor, theirs: Tensor) -> float:
    """How far apart two tensors are, over the size of the second."""
    ours, theirs = ours.detach().double(), theirs.detach().double()
    return float((ours - theirs).norm() / (theirs.norm() + 1e-30))

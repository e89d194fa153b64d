"""One step of a pack: every member's own images, one forward and backward pass, one optimizer step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from prunecast.data import Draws, Source, draw
from prunecast.fleet.pack import Pack
from prunecast.spec import Recipe, rng
from prunecast.training import OptimizerState, Tensors, initial_state, optimizer_step

Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class PackBench:
    """A pack on its device with all that a step reads and writes; only the tensors' values change."""

    pack: Pack
    recipe: Recipe
    batch: int
    source: Source
    """The training examples all members draw from."""
    parameters: Tensors
    trained: Tensors
    """What the forward pass reads: the parameters, or bfloat16 copies of those of convolutions and products."""
    optimizer_state: OptimizerState
    order: Tensor
    """(slots, positions): the examples of one epoch, in every member's own order."""
    draws: Draws | None
    """(slots, positions, ...): their augmentation."""
    rates: Tensor
    """The learning rate of every step of one epoch."""
    cursor: Tensor
    """The number of the step within the epoch, a tensor of one element."""
    losses: Tensor
    """Every member's sum of losses since the start."""
    healthy: Tensor
    """The steps after which a member's sum of losses was a finite number."""

    @property
    def dtype(self) -> torch.dtype:
        """The number format of activations."""
        return torch.bfloat16 if self.recipe.precision == "bf16" else self.losses.dtype


def bench_of(pack: Pack, recipe: Recipe, source: Source, *, batch: int, epoch: int) -> PackBench:
    """Lay out all tensors for epochs of at most `epoch` steps."""
    parameters = list(pack.parameters().values())
    device, dtype, count = parameters[0].device, parameters[0].dtype, epoch * batch
    sample = draw(recipe.augmentation, 1, source.image_shape, rng(0, "augmentation", 0))
    shape = (pack.slots, count)
    return PackBench(
        pack=pack,
        recipe=recipe,
        batch=batch,
        source=source,
        parameters=parameters,
        trained=_trained(pack, recipe),
        optimizer_state=initial_state(recipe, parameters),
        order=torch.zeros(shape, dtype=torch.int32, device=device),
        draws=None
        if sample is None
        else sample.map(lambda own: torch.zeros((*shape, *own.shape[1:]), dtype=compact(own), device=device)),
        rates=torch.zeros(epoch, dtype=dtype, device=device),
        cursor=torch.zeros(1, dtype=torch.int64, device=device),
        losses=torch.zeros(pack.slots, dtype=dtype, device=device),
        healthy=torch.zeros(pack.slots, dtype=torch.int32, device=device),
    )


@torch.no_grad()
def copy_bench(old: PackBench, new: PackBench) -> None:
    """Make a bench of the same shape stand where another stands."""
    for mine, other in zip(_tensors(new), _tensors(old), strict=True):
        mine.copy_(other)
    new.pack.guests[:] = old.pack.guests


def _tensors(bench: PackBench) -> Iterator[Tensor]:
    """All tensors whose values a step reads or writes."""
    yield from bench.pack.module.state_dict().values()
    yield from bench.pack.masks.values()
    yield from bench.trained
    for kind in bench.optimizer_state.values():
        yield from kind
    yield from bench.draws.tensors() if bench.draws else ()
    yield from (bench.order, bench.rates, bench.cursor, bench.losses, bench.healthy)


def compact(values: Tensor) -> torch.dtype:
    """The smallest format that holds a draw: shifts are a few pixels."""
    return torch.int8 if values.dtype == torch.int64 else values.dtype


def _trained(pack: Pack, recipe: Recipe) -> Tensors:
    """A bfloat16 copy costs one cast a step, in the optimizer, instead of one in every pass."""
    found = []
    for name, parameter in pack.parameters().items():
        layer = pack.module.get_submodule(name.rpartition(".")[0])
        low = recipe.precision == "bf16" and isinstance(layer, nn.Conv2d | nn.Linear)
        found.append(parameter.detach().bfloat16().requires_grad_() if low else parameter)
    return found


@dataclass(frozen=True, kw_only=True)
class Programs:
    """The three parts of a step, as they are written or compiled."""

    gather: Function
    forward: Function
    update: Function


def step(bench: PackBench, module: nn.Module, programs: Programs) -> None:
    """One step of all members at the cursor.

    `module` only lends its graph, so that all packs of one shape share what was compiled from it.
    """
    pack, device = bench.pack, bench.cursor.device
    places = (bench.cursor, bench.batch, pack.inputs.size, bench.dtype)
    images, labels = programs.gather(bench.source, bench.order, bench.draws, *places)
    state = dict(zip(pack.masks, bench.trained, strict=True)) | dict(pack.module.named_buffers())
    with torch.autocast(device.type, torch.bfloat16, bench.dtype == torch.bfloat16, cache_enabled=False):
        total, losses = programs.forward(module, state, images, labels, bench.losses.dtype)
    gradients = torch.autograd.grad(total, bench.trained, allow_unused=True, materialize_grads=True)
    with torch.no_grad():
        rate = bench.rates.index_select(0, bench.cursor).squeeze()
        copies = [(low, high) for low, high in zip(bench.trained, bench.parameters, strict=True)]
        masks = list(pack.masks.values())
        programs.update(
            bench.recipe, bench.parameters, list(gradients), bench.optimizer_state, masks, rate, copies
        )
        bench.losses.add_(losses)
        bench.healthy.add_(torch.isfinite(bench.losses))
        bench.cursor.add_(1)


def gather(
    source: Source,
    order: Tensor,
    draws: Draws | None,
    cursor: Tensor,
    batch: int,
    channels: int,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """The joined images of a step and their labels (slots, batch)."""
    positions = cursor * batch + torch.arange(batch, device=cursor.device)
    indices = order[:, positions].flatten().long()
    own = None if draws is None else draws.map(lambda values: values[:, positions].flatten(0, 1))
    images = source.batch(indices, own).view(len(order), batch, *source.image_shape)
    return join(images, channels, dtype), source.labels[indices].view(len(order), batch)


def join(images: Tensor, channels: int, dtype: torch.dtype) -> Tensor:
    """Images (slots, batch, C, H, W) side by side along channels, padded, channels last in memory."""
    rows = images.permute(1, 3, 4, 0, 2).flatten(3)
    return functional.pad(rows, (0, channels - rows.shape[3])).to(dtype).permute(0, 3, 1, 2)


def forward(
    module: nn.Module, state: dict[str, Tensor], images: Tensor, labels: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The sum over members of their mean losses, and these losses one by one."""
    scores: Tensor = torch.func.functional_call(module, state, (images,))
    rows = functional.cross_entropy(scores.to(dtype).flatten(0, 1), labels.t().flatten(), reduction="none")
    losses = rows.view(len(images), -1).mean(0)
    return losses.sum(), losses.detach()


def update(
    recipe: Recipe,
    parameters: Tensors,
    gradients: Tensors,
    optimizer_state: OptimizerState,
    masks: Tensors,
    rate: Tensor,
    copies: list[tuple[Tensor, Tensor]],
) -> None:
    """The recipe's optimizer step in the parameters' format, and the copies renewed."""
    full = [gradient.to(own.dtype) for gradient, own in zip(gradients, parameters, strict=True)]
    optimizer_step(recipe, parameters, full, optimizer_state, masks, rate)
    for low, high in copies:
        if low is not high:
            low.copy_(high)


EAGER = Programs(gather=gather, forward=forward, update=update)

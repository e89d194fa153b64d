"""Training one network in several processes, each with the whole network and a part of every batch.

Sums over the processes equal what one process would compute from the whole batch, up to rounding. Batch norms use
the statistics of the whole batch. Most networks are trained by a group of one process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.modules.batchnorm import _BatchNorm

from prunecast.errors import PrunecastError

KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
"""The batch norms that can be synchronised."""


@dataclass(frozen=True, kw_only=True)
class ProcessGroup:
    """This process's place among the processes of torch's default group."""

    rank: int = 0
    """The number of this process; 0 is the one that prunes, records and writes."""
    size: int = 1

    def part(self, count: int) -> slice:
        """Return this process's consecutive rows of `count`; parts differ by one row at most."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def share(self, count: int) -> float:
        """Return the weight of this process's mean in the mean over all `count` rows."""
        return len(range(count)[self.part(count)]) / count

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the group, in place; every process gets bit for bit the same sum."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    @torch.no_grad()
    def copy_first(self, tensors: Iterable[Tensor]) -> None:
        """Copy the values of the first process to all others, in place."""
        for tensor in tensors if self.size > 1 else ():
            staged = tensor.contiguous()
            distributed.broadcast(staged, 0)
            tensor.copy_(staged)


ALONE = ProcessGroup()
"""The group of one process, which trains whatever fits on one device."""


def distribute(model: nn.Module, group: ProcessGroup, device: torch.device) -> nn.Module:
    """Wrap the network in DistributedDataParallel, which averages gradients while backward still runs.

    Looking for unused parameters costs little for a network that needs several devices. It admits networks that
    do not use all of their parameters, and it keeps the buckets as they are from the first step, so sums run in
    the same order after an interruption.
    """
    if group.size == 1:
        return model
    return nn.parallel.DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        find_unused_parameters=True,
        gradient_as_bucket_view=True,
    )


def gradients_of(
    loss: Tensor, parameters: Sequence[Tensor], group: ProcessGroup, batch: int
) -> Sequence[Tensor]:
    """Return the gradients of the whole batch's mean loss, given the mean loss of this process's part.

    They are Σ_r (n_r / n) ∇ℓ_r for parts of n_r of n rows. DistributedDataParallel takes the mean over processes,
    hence the factor of the group's size.
    """
    if group.size == 1:
        return torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    for parameter in parameters:
        parameter.grad = None
    (loss * (group.size * group.share(batch))).backward()  # type: ignore[no-untyped-call]
    return [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]


def synchronise_norms(model: nn.Module, group: ProcessGroup, device: torch.device) -> None:
    """Replace the batch norms of a network by synchronised ones with the same tensors and names.

    torch has such a batch norm for GPUs only; `SharedBatchNorm` is the one for CPU.
    """
    if group.size == 1:
        return
    new: dict[nn.Module, nn.Module] = {}
    for path, module in list(model.named_modules()):
        for name, child in module._modules.items():
            if isinstance(child, _BatchNorm):
                if child not in new:
                    new[child] = _synchronised(child, f"{path}.{name}".lstrip("."), group, device)
                module._modules[name] = new[child]


def _synchronised(norm: _BatchNorm, name: str, group: ProcessGroup, device: torch.device) -> nn.Module:
    """Return the synchronised version of a batch norm, or raise an error that names the layer."""
    if type(norm) not in KNOWN or norm.running_mean is None:
        what = type(norm).__name__ if type(norm) not in KNOWN else "batch norm without running statistics"
        raise PrunecastError(
            f"The layer {name} is a {what}, which cannot be synchronised over devices; "
            "use torch's own batch norm, or remove devices from the plan."
        )
    options = (norm.num_features, norm.eps, norm.momentum, norm.affine)
    made = nn.SyncBatchNorm(*options) if device.type == "cuda" else SharedBatchNorm(*options, group=group)
    made.weight, made.bias = norm.weight, norm.bias
    made.running_mean, made.running_var = norm.running_mean, norm.running_var
    made.num_batches_tracked = norm.num_batches_tracked
    return made.train(norm.training)


class SharedBatchNorm(_BatchNorm):
    """Batch norm over the parts of a batch that the processes of a group hold."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self, num_features: int, eps: float, momentum: float | None, affine: bool, *, group: ProcessGroup
    ) -> None:
        super().__init__(num_features, eps, momentum, affine)
        self._group = group

    def _check_input_dim(self, input: Tensor) -> None:  # noqa: A002
        """Accept any input with channels in its second dimension."""

    def forward(self, images: Tensor) -> Tensor:
        """Normalise by the whole batch's statistics in training, by the running ones otherwise."""
        if not self.training:
            return super().forward(images)
        values = images.to(self.running_mean.dtype)
        others = [dimension for dimension in range(images.dim()) if dimension != 1]
        count = self._group.total(values.new_tensor(values.numel() / values.shape[1]))
        mean = self._total(values.sum(others)) / count
        centred = values - _wide(mean, images)
        variance = self._total(centred.square().sum(others)) / count
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            new = 1 / self.num_batches_tracked.item() if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean, new)
            self.running_var.lerp_(variance * (count / (count - 1)), new)
        normalised = centred * _wide((variance + self.eps).rsqrt(), images)
        if self.affine:
            normalised = normalised * _wide(self.weight, images) + _wide(self.bias, images)
        return normalised.to(images.dtype)

    def _total(self, values: Tensor) -> Tensor:
        total: Tensor = _Total.apply(values, self._group)  # type: ignore[no-untyped-call]
        return total


class _Total(torch.autograd.Function):
    """The sum over a group, and its gradient: what every process does with the sum depends on each one's part."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return group.total(values.clone())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return ctx.group.total(slopes[0].clone()), None


def _wide(values: Tensor, images: Tensor) -> Tensor:
    """Reshape one value per channel so that it broadcasts over images."""
    return values.view(1, -1, *[1] * (images.dim() - 2))
